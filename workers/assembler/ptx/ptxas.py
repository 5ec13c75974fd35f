"""NVIDIA kernels: the rules, then the ptxas of the installed Triton in a sandbox of its own."""

import re
from collections.abc import Mapping

from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability

from workers.assembler.machine import ENTRY, MachineCode
from workers.assembler.ptx.lint import RULES, LintedPtx, Rule, lint
from workers.assembler.ptx.mix import read_mix
from workers.assembler.ptx.parameters import read_parameter
from workers.assembler.refusal import AssemblyRefused
from workers.errors import ToolMissing
from workers.protocol import Kernel, Outcome
from workers.sandbox import CommandResult, SandboxEnding, SandboxLimits, run_command
from workers.targets import Target

FLAGS = ("-v", "--regAllocOptLevel=2")
"""Flags of Triton 3.7, without its line information. 3.6 omits the second; its ptxas for targets below sm_100 is the
same build (12.8.93), so with the same flags both give the same machine code there."""
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


def assemble_ptx(kernel: Kernel, target: Target, rules: Mapping[str, Rule] = RULES) -> MachineCode:
    """Lint a kernel by the rules and assemble it for an NVIDIA target.

    Raises:
        AssemblyRefused: If it breaks a rule or ptxas rejects it.
        ToolMissing: If the installed Triton has no ptxas for the target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    capability = target.capability[0] * 10 + target.capability[1]
    linted = lint(kernel, sm_arch_from_capability(capability), rules)
    files = {_SOURCE: linted.canonical.text.encode()}
    result = run_command(_command(capability), files, [_RESULT], LIMITS)
    if result.ending is not SandboxEnding.RETURNED:
        raise AssemblyRefused(f"ptxas did not finish: {result.detail}", outcome=Outcome.COMPILE_ERROR)
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
    """Assemble canonical text with more flags, for people to look at; empty if ptxas refuses it.

    Raises:
        ToolMissing: If the installed Triton has no ptxas for the target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    result = run_command([*_command(capability), *flags], {_SOURCE: text.encode()}, [_RESULT], LIMITS)
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


def _command(capability: int) -> list[str]:
    tool = get_ptxas(capability)
    if tool is None:
        raise ToolMissing(f"the installed Triton has no ptxas for sm_{capability}")
    return [tool.path, *FLAGS, f"--gpu-name={sm_arch_from_capability(capability)}", _SOURCE, "-o", _RESULT]


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
