"""`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy`: what the compiler takes for granted.

It reads and writes several elements at once where it takes addresses for contiguous and aligned. So wherever a hint is
false, a value carries along what it would be if the hint were true, and an access is refused if elements that are moved
together then do not lie together, or not all of them are wanted. A false hint that no access depends on does no harm:
columns that wrap around, `(start + tl.arange(0, B)) % N`, are contiguous nowhere but where N lets them be.
"""

from collections.abc import Callable, Sequence

import numpy as np

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import FalseHint, TensorValue, TritonType, format_of

WIDEST_BYTES = 16
"""Most that one thread loads or stores at once."""


def apply(function: Callable[..., Array], dtype: TritonType, *operands: TensorValue) -> TensorValue:
    """What a function makes of some values, and of what they are believed to be."""
    result = TensorValue(function(*(operand.data for operand in operands)), dtype)
    for operand in operands:
        operand.is_used = True
    beliefs = [operand.belief for operand in operands if operand.belief is not None]
    if beliefs:
        _believe(result, function(*(operand.believed for operand in operands)), beliefs[0].hint)
    return result


def give(value: TensorValue, kind: str, numbers: Sequence[int], line: int) -> None:
    """Take a hint for granted.

    Args:
        value: What it is about.
        kind: `multiple_of`, `max_contiguous` or `max_constancy`.
        numbers: One for each axis of the block.
        line: Where the candidate gives it.

    Raises:
        NotInterpretable: If it is false, and comes after something was made of the value: for the compiler it was so
            from the start.
    """
    rank = value.data.ndim - 2
    if len(numbers) != max(rank, 1):  # the compiler does not take that
        return
    value.hints[kind] = tuple(numbers)
    believed = value.data.view(np.uint8) if value.data.dtype == np.bool_ else value.data
    step = format_of(value.dtype.scalar.element_ty).stored.itemsize if value.dtype.scalar.is_ptr() else 1
    for axis, (multiple, run, same) in enumerate(zip(*_numbers(value, rank), strict=True)):
        believed = _suppose(believed, axis + 2 if rank else None, multiple, (run, same), step)
    _believe(value, believed.astype(value.data.dtype), f"tl.{kind} in line {line}")
    if value.belief is not None and value.is_used:
        raise NotInterpretable(
            f"{value.belief.hint} does not hold, and comes after the value was used, for which compiled code heeds it "
            "too; give it where the value is made"
        )


def require_access(pointer: TensorValue, mask: TensorValue | None, widest_bytes: int = WIDEST_BYTES) -> None:
    """Hold an access against the hints that its addresses and its mask are made with.

    Args:
        pointer: Where.
        mask: Which elements; None is all.
        widest_bytes: Most that the compiled kernel moves at once anywhere.

    Raises:
        NotInterpretable: If compiled code would move other elements.
    """
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
            raise NotInterpretable(
                f"{belief.hint} does not hold, and compiled code moves {count} elements at once that do not lie "
                "together because of it; remove the hint, or give it only where it holds"
            )


def require_true(values: Sequence[TensorValue]) -> None:
    """Take no value that a false hint is about.

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
    """Divisor, length of runs and length of constant stretches by axis; None where no hint says so."""
    nothing = (None,) * max(rank, 1)
    return tuple(value.hints.get(kind, nothing) for kind in ("multiple_of", "max_contiguous", "max_constancy"))


def _suppose(data: Array, axis: int | None, multiple: int | None, lengths: Sequence[int | None], step: int) -> Array:
    """Values along an axis as hints about it would have them: runs, each of which begins with a multiple."""
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
    result: Array = starts + risen.astype(data.dtype)
    return result


def _longest_run(data: Array, axis: int, step: int) -> int:
    """Elements of the longest runs that an axis is all made of; a power of two."""
    length: int = data.shape[axis] & -data.shape[axis]
    while length > 1 and not (np.diff(_grouped(data, axis, length), axis=axis + 1) == step).all():
        length //= 2
    return length


def _grouped(data: Array, axis: int, count: int) -> Array:
    """An axis as two, of which the second has `count` elements."""
    return data.reshape((*data.shape[:axis], -1, count, *data.shape[axis + 1 :]))


def _together(address: Array, mask: Array, axis: int, count: int, size: int) -> Array:
    """Which groups of elements along an axis can be moved at once."""
    if address.shape[axis] % count:
        return np.zeros(1, dtype=np.bool_)
    places, wanted = _grouped(address, axis, count), _grouped(mask, axis, count)
    aligned = np.take(places, 0, axis=axis + 1) % (count * size) == 0
    alike = wanted.min(axis=axis + 1) == wanted.max(axis=axis + 1)
    steps = np.diff(places, axis=axis + 1)
    rising = (steps.min(axis=axis + 1) == size) & (steps.max(axis=axis + 1) == size)
    result: Array = rising & aligned & alike
    return result


def _any(mask: Array, axis: int, count: int) -> Array:
    result: Array = _grouped(mask, axis, count).max(axis=axis + 1)
    return result
