"""NVIDIA kernels: the rules, then the ptxas of the installed Triton in a jail of its own."""

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
"""What Triton 3.7 passes, without its line information. 3.6 leaves the second out; its ptxas for targets below sm_100
is the same build (12.8.93), so that with one set of flags both give the same machine code there."""
LIMITS = SandboxLimits(wall_s=15.0, cpu_s=15.0, memory_bytes=4 * 2**30, reply_bytes=64 * 2**20, processes=8)
"""Triton's own kernels need under 1 s and 200 MB; a kernel that needs more is not worth its seconds."""
MOST_STACK_BYTES = 24 * 2**10
"""Local memory that a thread may have. A card sets as much aside for every thread that it can hold: 6.6 GB of an H100.
Of 950 kernels that people's sources in the honest gallery come to, on sm_90, none takes more than 4,008 bytes; one of
those that tuning comes to takes 18,344, and is right."""

_SOURCE, _RESULT = "kernel.ptx", "kernel.cubin"
_SPILLS = re.compile(
    r"Function properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
)
_STACK = re.compile(r"(\d+) bytes (?:stack frame|cumulative stack size)")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_MESSAGE = re.compile(r"ptxas[-a-z]* kernel\.ptx, line (\d+); (error .*)")


def assemble_ptx(kernel: Kernel, target: Target, rules: Mapping[str, Rule] = RULES) -> MachineCode:
    """Lint, by all rules or those that are given, and assemble a kernel for an NVIDIA target.

    Raises:
        Refused: If it breaks a rule or ptxas does not take it.
        ToolMissing: If the installed Triton has no ptxas for the target.
        JailFailed: If the jail cannot be set up.
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


def _check_calls(spills: Mapping[str, int]) -> None:
    """Hold what functions spill, by name, against the rule that return addresses stay in registers.

    ptxas spills them like anything else where registers run short, into memory that a kernel can write. It does not say
    which registers they were; functions of honest kernels take scalars and spill nothing.

    Raises:
        Refused: If a function that is called spills.
    """
    if any(count for name, count in spills.items() if name != ENTRY):
        raise AssemblyRefused(
            "a function that is not inlined needs more registers than it can have, and might spill the address that it "
            "returns to; let Triton inline it (no noinline=True)",
            outcome=Outcome.COMPILE_ERROR,
        )


def _check_stack(size: int) -> None:
    if size > MOST_STACK_BYTES:
        raise AssemblyRefused(
            f"a thread of the kernel takes {size} bytes of local memory, and {MOST_STACK_BYTES} are the most: a card "
            "sets that aside for all threads that it can hold; use smaller blocks or more warps",
            outcome=Outcome.COMPILE_ERROR,
        )


def _command(capability: int) -> list[str]:
    tool = get_ptxas(capability)
    if tool is None:
        raise ToolMissing(f"the installed Triton has no ptxas for sm_{capability}")
    return [tool.path, *FLAGS, f"--gpu-name={sm_arch_from_capability(capability)}", _SOURCE, "-o", _RESULT]


def _explain(result: CommandResult, log: str, linted: LintedPtx) -> AssemblyRefused:
    """Say what ptxas said, with the candidate's line in place of the text's."""
    messages = _MESSAGE.findall(log)
    if not messages:
        said = log.strip().splitlines()[-1:] or [f"exit status {result.status}"]
        return AssemblyRefused(f"ptxas refused the kernel: {said[0][:400]}", outcome=Outcome.COMPILE_ERROR)
    number, message = messages[0]
    lines = linted.canonical.lines
    line = lines[int(number) - 1] if 0 < int(number) <= len(lines) else None
    reason = f"ptxas refused the kernel: {re.sub(' +', ' ', message)[:400]}"
    return AssemblyRefused(reason, line, Outcome.COMPILE_ERROR)
