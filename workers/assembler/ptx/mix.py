"""What PTX instructions say about how a kernel works: counts by class, memory path, matrix units."""

import re
from collections import Counter
from collections.abc import Sequence

from workers.assembler.machine import CLASSES, MemoryPath, Mix, TensorCore
from workers.assembler.ptx.instructions import classify
from workers.assembler.ptx.syntax import Function, Instruction, Label

_BULK_BYTES = 16
"""Width that a bulk copy counts as: no thread loads, and the copy engine's granule is 16 bytes (PTX, cp.async.bulk)."""
_BITS = re.compile(r"[a-z]+(\d+)(x2)?\Z")


def read_mix(functions: Sequence[Function]) -> Mix:
    """Count and classify the instructions of a kernel's functions."""
    instructions = [item for function in functions for item in function.instructions]
    counts = Counter(classify(item) for item in instructions)
    return Mix(
        instructions={name: counts[name] for name in CLASSES},
        load_width_bytes=max((_load_width(item) for item in instructions), default=0),
        memory_path=_memory_path(instructions),
        tensor_core=_tensor_core(instructions),
        loops=any(_has_loop(function) for function in functions),
    )


def _load_width(item: Instruction) -> int:
    if classify(item) != "load_global":
        return 0
    if item.head == "cp":
        return _copy_width(item)
    vector = next((int(word[1:]) for word in item.modifiers if word in ("v2", "v4", "v8")), 1)
    bits = _BITS.match(item.modifiers[-1])
    return vector * int(bits[1]) // 8 if bits else 0


def _copy_width(item: Instruction) -> int:
    if "bulk" in item.modifiers:
        return _BULK_BYTES
    size = item.operands[2] if len(item.operands) > 2 else ()
    value = int(size[0], 0) if len(size) == 1 and re.fullmatch(r"0[xX][0-9a-fA-F]+|[1-9]\d?", size[0]) else 0
    return value if value in (4, 8, 16) else 0


def _memory_path(instructions: Sequence[Instruction]) -> MemoryPath:
    copies = [item for item in instructions if item.head == "cp" and classify(item) != "other"]
    if any("bulk" in item.modifiers for item in copies):
        return "bulk"
    return "async" if copies else "plain"


def _tensor_core(instructions: Sequence[Instruction]) -> TensorCore:
    heads = {item.head for item in instructions if classify(item) == "matrix"}
    if heads & {"wgmma", "tcgen05"}:
        return "wgmma"
    return "mma" if heads else "none"


def _has_loop(function: Function) -> bool:
    """Whether a jump goes to a label that stands before it."""
    seen: set[str] = set()
    for item in function.body.walk() if function.body else ():
        if isinstance(item, Label):
            seen.add(item.name)
        elif isinstance(item, Instruction) and item.head == "bra" and item.operands and item.operands[0][0] in seen:
            return True
    return False
