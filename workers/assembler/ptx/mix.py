"""Instruction mix of a PTX kernel: counts by class, memory path, matrix units."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from workers.assembler.loops import LoopFlow
from workers.assembler.machine import (
    ACCESSES,
    CLASSES,
    Accumulators,
    InstructionMix,
    LoopIteration,
    MemoryPath,
    TensorCore,
)
from workers.assembler.ptx.instructions import access_bytes, classify
from workers.assembler.ptx.syntax import PtxFunction, PtxInstruction, PtxLabel, Statement

_MULTIPLIES = {"mma", "mma_async"}
"""Heads and modifiers of the matrix instructions that multiply."""
_TYPES = {"f16", "bf16", "tf32", "f32", "f64", "s32", "s8", "u8", "s4", "u4", "b1"} | {
    "e4m3", "e5m2", "e3m2", "e2m3", "e2m1",
}  # fmt: skip
"""Modifiers for the types of factors and sums of matrix instructions."""
_BYTEWISE = ("dp2a", "dp4a")
"""Instructions that multiply bytes outside of the matrix units."""
_BULK_BYTES = 16
"""Width of a bulk copy: no thread loads, and the copy engine's granule is 16 bytes (PTX, cp.async.bulk)."""


def read_mix(functions: Sequence[PtxFunction]) -> InstructionMix:
    """Count and classify the instructions of a kernel's functions."""
    instructions = [item for function in functions for item in function.instructions]
    counts = Counter(classify(item) for item in instructions)
    looped = [item for function in functions for item in _looped(function)]
    products = [item for item in instructions if _multiplies(item)]
    return InstructionMix(
        instructions={name: counts[name] for name in CLASSES},
        load_width_bytes=max((_width(item) for item in instructions if classify(item) == "load_global"), default=0),
        memory_path=_memory_path(instructions),
        tensor_core=_tensor_core(instructions),
        loops=any(_flow(function).jumps_back for function in functions),
        turn=LoopIteration(
            instructions=dict(Counter(classify(item) for item in looped)),
            thread_bytes=sum(_thread_bytes(item) for item in looped),
            program_bytes=sum(_awaited_bytes(item) for item in looped),
        ),
        open_barriers=_open_barriers(instructions),
        warp_roles="specialised" if any(item.head == "setmaxnreg" for item in instructions) else "same",
        accumulators=_accumulators(products),
        sums=frozenset(chain.from_iterable(_sums(item) for item in products)),
        factors=frozenset(chain.from_iterable(_factors(item) for item in products)),
    )


def _open_barriers(instructions: Sequence[PtxInstruction]) -> int:
    """Return the barriers in shared memory that are initialised in more places than invalidated."""
    said = Counter(item.modifiers[0] for item in instructions if item.head == "mbarrier" and item.modifiers)
    return max(0, said["init"] - said["inval"])


def _thread_bytes(item: PtxInstruction) -> int:
    return _width(item) if classify(item) in ACCESSES and "bulk" not in item.modifiers else 0


def _awaited_bytes(item: PtxInstruction) -> int:
    """Return the bytes of bulk copies that an instruction makes a barrier wait for."""
    awaited = item.operands[-1] if item.head == "mbarrier" and "expect_tx" in item.modifiers else ()
    return int(awaited[0]) if len(awaited) == 1 and awaited[0].isdecimal() else 0


def _width(item: PtxInstruction) -> int:
    """Return the bytes of global memory that a thread accesses with a load, store or copy."""
    if item.head != "cp":
        return access_bytes(item)
    if "bulk" in item.modifiers:
        return _BULK_BYTES
    size = item.operands[2] if len(item.operands) > 2 else ()
    value = int(size[0], 0) if len(size) == 1 and re.fullmatch(r"0[xX][0-9a-fA-F]+|[1-9]\d?", size[0]) else 0
    return value if value in (4, 8, 16) else 0


def _memory_path(instructions: Sequence[PtxInstruction]) -> MemoryPath:
    copies = [item for item in instructions if item.head == "cp" and classify(item) != "other"]
    if any("bulk" in item.modifiers for item in copies):
        return "bulk"
    return "async" if copies else "plain"


def _tensor_core(instructions: Sequence[PtxInstruction]) -> TensorCore:
    heads = {item.head for item in instructions if classify(item) == "matrix"}
    if heads & {"wgmma", "tcgen05"}:
        return "wgmma"
    return "mma" if heads else "none"


def _accumulators(products: Sequence[PtxInstruction]) -> Accumulators:
    heads = {item.head for item in products} - set(_BYTEWISE)
    return "tensor_memory" if "tcgen05" in heads else "registers" if heads else "none"


def _multiplies(item: PtxInstruction) -> bool:
    """Return True for products of matrices or bytes; other matrix instructions load, wait and copy."""
    words = {item.head, *item.modifiers}
    return item.head in _BYTEWISE or (classify(item) == "matrix" and not words.isdisjoint(_MULTIPLIES))


def _types(item: PtxInstruction) -> list[str]:
    return [word for word in item.modifiers if word in _TYPES]


def _sums(item: PtxInstruction) -> list[str]:
    """Return the type of the result, which comes first; `tcgen05` has it in a register, where it is not visible."""
    return [] if item.head in _BYTEWISE else _types(item)[:1]


def _factors(item: PtxInstruction) -> list[str]:
    """Return the types of a product's factors, which follow the type of its result.

    `wmma` omits them for float16 and names both accumulators; `tcgen05` names a kind.
    """
    if item.head in _BYTEWISE:
        return ["s8"]
    if item.head == "wmma":
        return _types(item)[1:-1] or ["f16"]
    kinds = [word.removeprefix("kind::") for word in item.modifiers if word.startswith("kind::")]
    return kinds if item.head == "tcgen05" else _types(item)[1:3]


def _looped(function: PtxFunction) -> list[PtxInstruction]:
    """Return the instructions of one iteration of a function's innermost loops."""
    items = _items(function)
    passed = _flow(function).turns([classify(item) if isinstance(item, PtxInstruction) else "" for item in items])
    return [item for place in passed if isinstance(item := items[place], PtxInstruction)]


def _flow(function: PtxFunction) -> LoopFlow:
    """Return the control flow of a function; among labels of the same name, a jump means the last one above it."""
    seen: dict[str, int] = {}
    ahead: dict[str, list[int]] = {}
    jumps: dict[int, int] = {}
    ends: set[int] = set()
    for place, item in enumerate(_items(function)):
        if isinstance(item, PtxLabel):
            seen[item.name] = place
            jumps |= dict.fromkeys(ahead.pop(item.name, ()), place)
        elif isinstance(item, PtxInstruction) and item.head in ("bra", "ret", "exit"):
            name = item.operands[0][0] if item.operands else ""
            if name in seen:
                jumps[place] = seen[name]
            else:
                ahead.setdefault(name, []).append(place)
            ends |= set() if item.guard else {place}
    return LoopFlow(jumps, ends)


def _items(function: PtxFunction) -> list[Statement]:
    return list(function.body.walk()) if function.body else []
