"""NVIDIA kernels: the rules, then the plan's ptxas in a sandbox per candidate."""

import re
import signal
from collections.abc import Mapping, Sequence

from triton.backends.nvidia.compiler import sm_arch_from_capability

from workers.assembler.machine import ENTRY, MachineCode
from workers.assembler.ptx.lint import RULES, LintedPtx, Rule, lint
from workers.assembler.ptx.mix import read_mix
from workers.assembler.ptx.parameters import read_parameter
from workers.assembler.ptx.tools import own_tool, path_of
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel, Outcome, PtxasTool
from workers.sandbox import CommandResult, SandboxCommand, SandboxEnding, SandboxLimits, run_command, run_commands
from workers.targets import Target

FLAGS = ("-v", "--regAllocOptLevel=2")
"""Flags of Triton 3.7 to 3.9, without its line information. 3.6 omits the second; all plans get the same flags."""
LIMITS = SandboxLimits(wall_s=15.0, cpu_s=15.0, memory_bytes=4 * 2**30, reply_bytes=64 * 2**20, processes=8)
"""Limits of ptxas; Triton's own kernels need under 1 s and 200 MB."""
MOST_STACK_BYTES = 24 * 2**10
"""Maximum local memory per thread. A card reserves it for every thread that it can hold: 6.6 GB of an H100. On sm_90,
none of 950 kernels compiled from the honest gallery's sources takes more than 4,008 bytes. One correct kernel from
tuning takes 18,344."""

_SOURCE, _RESULT = "kernel.ptx", "kernel.cubin"
_SPILLS = re.compile(
    r"Function properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
)
_STACK = re.compile(r"(\d+) bytes (?:stack frame|cumulative stack size)")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_MESSAGE = re.compile(r"ptxas[-a-z]* kernel\.ptx, line (\d+); (error .*)")


def assemble_ptx(
    kernel: Kernel, target: Target, rules: Mapping[str, Rule] = RULES, tool: PtxasTool | None = None
) -> MachineCode:
    """Lint a kernel by the rules and assemble it for an NVIDIA target.

    Args:
        kernel: The kernel.
        target: The target.
        rules: Rules for its text.
        tool: The build of ptxas; None is the installed Triton's.

    Raises:
        AssemblyRefused: If it breaks a rule or ptxas rejects it.
        ToolMissing: If this host does not have that ptxas.
        SandboxFailed: If the sandbox cannot be set up.
    """
    (found,) = assemble_all_ptx((kernel,), target, LIMITS, rules, tool)
    if isinstance(found, AssemblyRefused):
        raise found
    return found


def assemble_all_ptx(
    kernels: Sequence[Kernel],
    target: Target,
    limits: SandboxLimits = LIMITS,
    rules: Mapping[str, Rule] = RULES,
    tool: PtxasTool | None = None,
) -> list[MachineCode | AssemblyRefused]:
    """Lint the kernels of one candidate and assemble them in one sandbox, whose start takes as long as a small kernel.

    Args:
        kernels: The kernels.
        target: Their target.
        limits: Limits; wall time of all runs of ptxas together, processor time of each.
        rules: Rules of the lint.
        tool: The build of ptxas; None is the installed Triton's.

    Returns:
        The machine code of each kernel up to the first that is refused; its refusal is the last item.

    Raises:
        ToolMissing: If the installed Triton has no ptxas for the target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    capability = target.capability[0] * 10 + target.capability[1]
    linted: list[LintedPtx] = []
    found: list[MachineCode | AssemblyRefused] = []
    refusal: list[AssemblyRefused] = []
    try:
        for kernel in kernels:
            linted.append(lint(kernel, sm_arch_from_capability(capability), rules))
    except AssemblyRefused as refused:
        refusal.append(refused)
    command = _command(path_of(tool, target), capability) if linted else ()
    files = [{_SOURCE: each.canonical.text.encode()} for each in linted]
    commands = [SandboxCommand(command, each, [_RESULT]) for each in files]
    results = run_commands(commands, limits) if commands else []
    for kernel, text, result in zip(kernels, linted, results, strict=False):
        try:
            found.append(_machine_code(kernel, text, result, limits))
        except AssemblyRefused as refused:
            return [*found, refused]
    return [*found, *refusal]


def _machine_code(kernel: Kernel, linted: LintedPtx, result: CommandResult, limits: SandboxLimits) -> MachineCode:
    """Read the result of ptxas.

    Raises:
        AssemblyRefused: If it rejects the kernel, or the machine code takes what it may not.
    """
    if result.status == -signal.SIGXCPU:
        raise AssemblyRefused(
            f"ptxas used more than {limits.cpu_s:g} s of processor time; use smaller blocks or more warps",
            outcome=Outcome.TRACE_TIMEOUT,
        )
    if result.ending is not SandboxEnding.RETURNED:
        late = result.ending is SandboxEnding.TIMEOUT
        outcome = Outcome.TRACE_TIMEOUT if late else Outcome.COMPILE_ERROR
        raise AssemblyRefused(f"ptxas did not finish: {result.detail}", outcome=outcome)
    log = result.stderr.decode(errors="replace") + result.stdout.decode(errors="replace")
    code = result.files.get(_RESULT, b"")
    if result.status != 0 or not code:
        raise _explain(result, log, linted)
    spills = {name: int(stored) + int(loaded) for name, stored, loaded in _SPILLS.findall(log)}
    _check_calls(spills)
    _check_stack(max(map(int, _STACK.findall(log)), default=0))
    registers, shared = _REGISTERS.search(log), _SHARED.search(log)
    return MachineCode(
        code=code,
        parameters=tuple(read_parameter(item) for item in linted.entry.parameters),
        registers=int(registers[1]) if registers else 0,
        spill_bytes=sum(spills.values()),
        shared_bytes=kernel.shared_bytes + (int(shared[1]) if shared else 0),
        mix=read_mix(linted.module.functions),
    )


def assemble_text(text: str, capability: int, *flags: str) -> bytes:
    """Assemble canonical text with more flags and the installed ptxas, for people to look at; empty if it refuses it.

    Raises:
        ToolMissing: If the installed Triton has no ptxas for the target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    result = run_command(
        [*_command(own_tool(capability)[1], capability), *flags], {_SOURCE: text.encode()}, [_RESULT], LIMITS
    )
    return result.files.get(_RESULT, b"") if result.status == 0 else b""


def _check_calls(spills: Mapping[str, int]) -> None:
    """Check spills, by function, against the rule that return addresses stay in registers.

    Where registers run short, ptxas may spill a return address into memory that a kernel can write. It does not report
    which registers it spills. Functions of honest kernels take scalars and spill nothing.

    Raises:
        AssemblyRefused: If a function that is called spills.
    """
    if any(count for name, count in spills.items() if name != ENTRY):
        raise AssemblyRefused(
            "a function that is not inlined spills registers, which may include its return address; let Triton inline "
            "it (no noinline=True)",
            outcome=Outcome.COMPILE_ERROR,
        )


def _check_stack(size: int) -> None:
    if size > MOST_STACK_BYTES:
        raise AssemblyRefused(
            f"a thread of the kernel takes {size} bytes of local memory; the maximum is {MOST_STACK_BYTES}, because a "
            "card reserves it for all threads that it can hold: use smaller blocks or more warps",
            outcome=Outcome.COMPILE_ERROR,
        )


def _command(path: str, capability: int) -> list[str]:
    return [path, *FLAGS, f"--gpu-name={sm_arch_from_capability(capability)}", _SOURCE, "-o", _RESULT]


def _explain(result: CommandResult, log: str, linted: LintedPtx) -> AssemblyRefused:
    """Turn ptxas's error into a refusal, with the candidate's line."""
    messages = _MESSAGE.findall(log)
    if not messages:
        said = log.strip().splitlines()[-1:] or [f"exit status {result.status}"]
        return AssemblyRefused(f"ptxas refused the kernel: {said[0][:400]}", outcome=Outcome.COMPILE_ERROR)
    number, message = messages[0]
    lines = linted.canonical.lines
    line = lines[int(number) - 1] if 0 < int(number) <= len(lines) else None
    reason = f"ptxas refused the kernel: {re.sub(' +', ' ', message)[:400]}"
    return AssemblyRefused(reason, line, Outcome.COMPILE_ERROR)
