"""`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy`: assumptions of the compiler.

The compiler moves several elements at once if it assumes contiguous and aligned addresses. So a value with a false hint
also carries the value that the hint implies. A store is refused if elements moved together are not adjacent, or not
all wanted. A load gives such elements values that no result may depend on: a kernel that masks them later is right, and
any other is wrong. A false hint without such an access is harmless: columns that wrap around,
`(start + tl.arange(0, B)) % N`, are contiguous only for some N.

The compiler applies a hint to its value everywhere, even if the hint stands in a branch that no program takes or after
a `return`. Execution cannot reveal such hints. So a hint must stand where its value is made: in the same branch and in
the same loop iteration. Parameters and loop variables are exempt: the compiler ignores their hints.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from triton import language as tl
from triton._C.libtriton import ir
from triton.compiler.code_generator import CodeGenerator

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import FalseHint, TensorValue, TritonType, format_of

WIDEST_BYTES = 16
"""Maximum number of bytes that one thread loads or stores at once."""
_LARGE = 2.0**15
# Finite in every float dtype of 16 bits and more.
_HINTS = (tl.multiple_of, tl.max_contiguous, tl.max_constancy)
_COUNTER = "ub.poison"
# Placeholder of a loop variable until the loop is emitted.


def apply(function: Callable[..., Array], dtype: TritonType, *operands: TensorValue) -> TensorValue:
    """Apply a function to values, and to the values that the compiler assumes."""
    result = TensorValue(function(*(operand.data for operand in operands)), dtype)
    for operand in operands:
        operand.is_used = True
    beliefs = [operand.belief for operand in operands if operand.belief is not None]
    if beliefs:
        _believe(result, function(*(operand.believed for operand in operands)), beliefs[0].hint)
    return result


def give(value: TensorValue, kind: str, numbers: Sequence[int], line: int) -> None:
    """Apply a hint to a value.

    Args:
        value: The value.
        kind: `multiple_of`, `max_contiguous` or `max_constancy`.
        numbers: One number per axis of the block.
        line: The candidate's line.

    Raises:
        NotInterpretable: If it is false and the value has been used: the compiler applies it from the start.
    """
    rank = value.data.ndim - 2
    if len(numbers) != max(rank, 1):  # The compiler refuses it.
        return
    value.hints[kind] = tuple(numbers)
    believed = value.data.view(np.uint8) if value.data.dtype == np.bool_ else value.data
    step = format_of(value.dtype.scalar.element_ty).stored.itemsize if value.dtype.scalar.is_ptr() else 1
    for axis, (multiple, run, same) in enumerate(zip(*_numbers(value, rank), strict=True)):
        believed = _suppose(believed, axis + 2 if rank else None, multiple, (run, same), step)
    _believe(value, believed.astype(value.data.dtype), f"tl.{kind} in line {line}")
    if value.belief is not None and value.is_used:
        raise NotInterpretable(
            f"{value.belief.hint} does not hold, and comes after a use of the value, to which the compiler applies it "
            "too; give it where the value is made"
        )


def require_access(pointer: TensorValue, mask: TensorValue | None, widest_bytes: int = WIDEST_BYTES) -> None:
    """Check a store against the hints on its addresses and its mask.

    Args:
        pointer: The addresses.
        mask: The active elements; None is all.
        widest_bytes: Maximum number of bytes that the compiled kernel moves at once.

    Raises:
        NotInterpretable: If compiled code would move other elements.
    """
    for found in _strays(pointer, mask, widest_bytes):
        raise found.refusal()


def misread(pointer: TensorValue, mask: TensorValue | None, widest_bytes: int = WIDEST_BYTES) -> Array | None:
    """Return a mask of the elements that compiled code may load from elsewhere because of a false hint; None if none.

    It loads several elements from the first one's address on. So columns that wrap around, `offsets % N`, or that are
    clamped, get other elements, and a kernel may do so where it masks them later.

    Raises:
        NotInterpretable: If it would load at a misaligned address, or elements of which only some are active.
    """
    missed: Array | None = None
    for found in _strays(pointer, mask, widest_bytes):
        first = np.take(_grouped(found.actual, found.axis, found.count), [0], axis=found.axis + 1)
        wanted = _grouped(found.mask, found.axis, found.count)
        is_whole = (wanted.min(axis=found.axis + 1) == wanted.max(axis=found.axis + 1)).all()
        is_aligned = (first % (found.count * found.size) == 0).all()
        if missed is not None or not is_whole or not is_aligned:
            raise found.refusal()
        steps = np.arange(found.count) * found.size
        risen = first + steps.reshape((-1,) + (1,) * (found.actual.ndim - 1 - found.axis)).astype(first.dtype)
        missed = (risen.reshape(found.actual.shape) != found.actual) & found.mask
    return missed


def spoilt(data: Array) -> Array:
    """Return values that no result may depend on: NaN and large ones of both signs, in turn."""
    if data.dtype == np.bool_:
        return ~data
    if np.issubdtype(data.dtype, np.floating):
        values = np.array([np.nan, _LARGE, -_LARGE], dtype=data.dtype)
    else:
        values = np.array([np.iinfo(data.dtype).max, np.iinfo(data.dtype).min], dtype=data.dtype)
    return values[np.arange(data.size) % len(values)].reshape(data.shape)


@dataclass(frozen=True)
class _Stray:
    """Elements along an axis that compiled code moves together although they do not lie together."""

    belief: FalseHint
    axis: int
    count: int
    size: int
    actual: Array
    mask: Array

    def refusal(self) -> NotInterpretable:
        return NotInterpretable(
            f"{self.belief.hint} does not hold, and compiled code moves {self.count} elements at once that do not lie "
            "together because of it; remove the hint, or give it only where it holds"
        )


def _strays(pointer: TensorValue, mask: TensorValue | None, widest_bytes: int) -> Iterator[_Stray]:
    pointer.is_used = True
    if mask is not None:
        mask.is_used = True
    belief = pointer.belief or (mask.belief if mask is not None else None)
    if belief is None:
        return
    wanted = mask if mask is not None else TensorValue(np.ones((1, 1), dtype=np.bool_), pointer.dtype)
    operands = (pointer.believed, wanted.believed, pointer.data, wanted.data)
    rank = max(operand.ndim for operand in operands)
    raised = [
        operand.reshape(operand.shape[:2] + (1,) * (rank - operand.ndim) + operand.shape[2:]) for operand in operands
    ]
    believed, believed_mask, actual, actual_mask = np.broadcast_arrays(*raised)
    size = format_of(pointer.dtype.scalar.element_ty).stored.itemsize
    for axis in range(2, rank):
        count = widest_bytes // size
        while count > 1 and not _together(believed, believed_mask, axis, count, size).all():
            count //= 2
        if (
            count > 1
            and not (_together(actual, actual_mask, axis, count, size) | ~_any(actual_mask, axis, count)).all()
        ):
            yield _Stray(belief, axis, count, size, actual, actual_mask)


def require_true(values: Sequence[TensorValue]) -> None:
    """Refuse values with a false hint.

    Raises:
        NotInterpretable: If there is one.
    """
    for value in values:
        value.is_used = True
        if value.belief is not None:
            raise NotInterpretable(
                f"{value.belief.hint} does not hold; remove the hint, or give it only where it holds"
            )


def _believe(value: TensorValue, believed: Array, hint: str) -> None:
    value.belief = None if np.array_equal(believed, value.data) else FalseHint(believed, hint)


def _numbers(value: TensorValue, rank: int) -> tuple[Sequence[int | None], ...]:
    """Return divisor, length of runs and length of constant runs by axis; None without a hint."""
    nothing = (None,) * max(rank, 1)
    return tuple(value.hints.get(kind, nothing) for kind in ("multiple_of", "max_contiguous", "max_constancy"))


def _suppose(data: Array, axis: int | None, multiple: int | None, lengths: Sequence[int | None], step: int) -> Array:
    """Return the values along an axis that its hints imply: runs that begin with a multiple."""
    if axis is None:
        return data - data % multiple if multiple else data
    run, same = lengths
    if not run and not same:
        run = _longest_run(data, axis, step)
    length, rise = (run, step) if run and run > 1 else (same or 1, 0)
    place = np.arange(data.shape[axis])
    starts = np.take(data, place // length * length, axis=axis)
    if multiple:
        starts = starts - starts % multiple
    risen = (place % length * rise).reshape((-1,) + (1,) * (data.ndim - 1 - axis))
    return np.asarray(starts + risen.astype(data.dtype))


def _longest_run(data: Array, axis: int, step: int) -> int:
    """Return the greatest length, a power of two, of runs that make up the whole axis."""
    length: int = data.shape[axis] & -data.shape[axis]
    while length > 1 and not (np.diff(_grouped(data, axis, length), axis=axis + 1) == step).all():
        length //= 2
    return length


def _grouped(data: Array, axis: int, count: int) -> Array:
    """Split an axis in two, the second with `count` elements."""
    return data.reshape((*data.shape[:axis], -1, count, *data.shape[axis + 1 :]))


def _together(address: Array, mask: Array, axis: int, count: int, size: int) -> Array:
    """Return a mask of the groups of elements along an axis that can be moved at once."""
    if address.shape[axis] % count:
        return np.zeros(1, dtype=np.bool_)
    places, wanted = _grouped(address, axis, count), _grouped(mask, axis, count)
    aligned = np.take(places, 0, axis=axis + 1) % (count * size) == 0
    alike = wanted.min(axis=axis + 1) == wanted.max(axis=axis + 1)
    steps = np.diff(places, axis=axis + 1)
    rising = (steps.min(axis=axis + 1) == size) & (steps.max(axis=axis + 1) == size)
    return np.asarray(rising & aligned & alike)


def _any(mask: Array, axis: int, count: int) -> Array:
    return np.asarray(_grouped(mask, axis, count).max(axis=axis + 1))


def check_hints() -> list[str]:
    """Make the compiler check hints. Returns the list to which it appends objections."""
    found: list[str] = []
    call = CodeGenerator.call_Function

    def watched(
        self: CodeGenerator, node: ast.Call, fn: object, args: Sequence[object], kws: Mapping[str, object]
    ) -> object:
        about = args[0] if args else kws.get("input")
        if any(fn is hint for hint in _HINTS) and isinstance(about, tl.tensor) and not _is_made_here(self, about):
            found.append(
                f"`{ast.unparse(node)}` is a hint about a value that is made outside the branch or the loop of the "
                "hint, and the compiler applies it even if it is not reached: give hints where the value is made"
            )
        return call(self, node, fn, args, kws)

    CodeGenerator.call_Function = watched
    return found


def _is_made_here(generator: CodeGenerator, value: tl.tensor) -> bool:
    """True if a value is made in the block that is being emitted, or by no instruction."""
    sought, blocks = value.handle.id(), set[int]()

    def look(operation: ir.operation) -> None:
        results = (operation.get_result(index).id() for index in range(operation.get_num_results()))
        if sought in results and operation.get_name() != _COUNTER:
            blocks.add(operation.get_block().id())

    generator.module.walk(look)
    return blocks <= {generator.builder.get_insertion_block().id()}
