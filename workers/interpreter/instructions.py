"""What the machine code of a kernel does to global memory, read off its text.

The interpreter knows what a kernel says, and the compiler may have left out what it took for unreachable, or undefined.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.hints import WIDEST_BYTES
from workers.protocol import Copy, Fill, Kernel, Plan, Pointer

_ACCESS = re.compile(r"(?<![\w.$%])(ld|st|atom|red|multimem|cp)((?:\.[\w:]+)+)([^;\n]*)")
_ELSEWHERE = ("shared", "local", "param", "const")
# State spaces that are not global memory; an access without any may be one of that.
_WRITES = {"st", "atom", "red", "multimem"}
_TO_GLOBAL = re.compile(r"\.global(?:\.tile)?\.shared\b")
_COUNT = re.compile(r"\.v([248])\b")
_BITS = re.compile(r"\.[busf](8|16|32|64|128)\b")
_COPIED = re.compile(r"\],\s*(0x[0-9a-fA-F]+|\d+)")
# The size of a `cp.async`, in bytes: its third operand.


@dataclass(frozen=True)
class MemoryInstructions:
    """What matters of a kernel's machine code.

    Attributes:
        writes: Whether anything in it writes to global memory.
        widest_bytes: Most that one thread loads or stores there at once; 0 if it does neither.
    """

    writes: bool = True
    widest_bytes: int = WIDEST_BYTES


def read(kernel: Kernel) -> MemoryInstructions:
    """Look through a kernel's text. Of other languages than PTX nothing is known."""
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
    """Hold a plan that is not executed against whether anything could write its outputs.

    Args:
        plan: The plan.
        codes: What its kernels do, by digest.

    Raises:
        NotInterpretable: If no step of the plan can.
    """
    written = {step.target.buffer for step in plan.steps if isinstance(step, Fill | Copy)}
    for launch in plan.launches:
        if codes[launch.kernel].writes:
            written |= {argument.buffer for argument in launch.arguments if isinstance(argument, Pointer)}
    for place, output in enumerate(plan.outputs):
        if output.elements and output.buffer not in written and plan.buffers[output.buffer].input is None:
            raise NotInterpretable(
                f"at {plan.shape.key} no kernel that gets output {place} has an instruction that writes to global "
                "memory: the compiler took all that does for unreachable, as it may where a condition is undefined"
            )


def _moved_bytes(modifiers: str) -> int:
    """Bytes of a load, a store or an atomic."""
    bits, count = _BITS.findall(modifiers), _COUNT.search(modifiers)
    return int(bits[-1]) // 8 * int(count[1] if count else 1) if bits else WIDEST_BYTES


def _copied_bytes(modifiers: str, operands: str) -> int:
    """Bytes that a thread copies to shared memory; none where a unit of its own does, or nothing is copied."""
    if not modifiers.startswith((".async.ca.", ".async.cg.")):
        return 0
    size = _COPIED.search(operands)
    return int(size[1], 0) if size else WIDEST_BYTES
