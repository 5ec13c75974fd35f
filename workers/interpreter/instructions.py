"""Accesses to global memory in a kernel's machine code, found in its text.

The interpreter knows the source only; the compiler may have dropped code that it considers unreachable or undefined.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.hints import WIDEST_BYTES
from workers.protocol import Copy, Fill, Kernel, Plan

_ACCESS = re.compile(r"(?<![\w.$%])(ld|st|atom|red|multimem|cp)((?:\.[\w:]+)+)([^;\n]*)")
_ELSEWHERE = ("shared", "local", "param", "const")
# State spaces other than global memory; an access without a state space may be global.
_WRITES = {"st", "atom", "red", "multimem"}
_TO_GLOBAL = re.compile(r"\.global(?:\.tile)?\.shared\b")
_COUNT = re.compile(r"\.v([248])\b")
_BITS = re.compile(r"\.[busf](8|16|32|64|128)\b")
_COPIED = re.compile(r"\],\s*(0x[0-9a-fA-F]+|\d+)")
# The size of a `cp.async`, in bytes: its third operand.


@dataclass(frozen=True)
class MemoryInstructions:
    """Global memory accesses of a kernel's machine code.

    Attributes:
        writes: True if an instruction writes to global memory.
        widest_bytes: Maximum number of bytes that one thread loads or stores at once; 0 without accesses.
    """

    writes: bool = True
    widest_bytes: int = WIDEST_BYTES


def read(kernel: Kernel) -> MemoryInstructions:
    """Parse a kernel's text. Languages other than PTX yield the defaults."""
    if kernel.language != "ptx":
        return MemoryInstructions()
    writes, widest = False, 0
    for opcode, modifiers, operands in _ACCESS.findall(kernel.assembly):
        if opcode == "cp":
            writes |= _TO_GLOBAL.search(modifiers) is not None
            widest = max(widest, _copied_bytes(modifiers, operands))
        elif not any(part.startswith(_ELSEWHERE) for part in modifiers.split(".")):
            writes |= opcode in _WRITES
            widest = max(widest, _moved_bytes(modifiers))
    return MemoryInstructions(writes, widest)


def require_written(plan: Plan, codes: Mapping[str, MemoryInstructions]) -> None:
    """Check that a plan that is not executed could write its outputs.

    Args:
        plan: The plan.
        codes: Accesses of its kernels, by digest.

    Raises:
        NotInterpretable: If no step of the plan can write an output.
    """
    written = {step.target.buffer for step in plan.steps if isinstance(step, Fill | Copy)}
    for launch in plan.launches:
        if codes[launch.kernel].writes:
            written |= {argument.buffer for argument in launch.memory}
    for place, output in enumerate(plan.outputs):
        if output.elements and output.buffer not in written and plan.buffers[output.buffer].input is None:
            raise NotInterpretable(
                f"at {plan.shape.key} no kernel that gets output {place} has an instruction that writes to global "
                "memory: the compiler considers its stores unreachable, as it may if a condition is undefined"
            )


def _moved_bytes(modifiers: str) -> int:
    """Return the bytes of a load, a store or an atomic."""
    bits, count = _BITS.findall(modifiers), _COUNT.search(modifiers)
    return int(bits[-1]) // 8 * int(count[1] if count else 1) if bits else WIDEST_BYTES


def _copied_bytes(modifiers: str, operands: str) -> int:
    """Return the bytes that a thread copies to shared memory; 0 if a special unit does it, or nothing is copied."""
    if not modifiers.startswith((".async.ca.", ".async.cg.")):
        return 0
    size = _COPIED.search(operands)
    return int(size[1], 0) if size else WIDEST_BYTES
