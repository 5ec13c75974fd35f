"""`tl.reduce` and `tl.associative_scan`: numpy if its result is the same, otherwise a tree of the combine function."""

from collections.abc import Callable, Sequence
from typing import SupportsIndex

import numpy as np
from triton import language as tl

from workers.interpreter.elementwise import apply_to_elements
from workers.interpreter.faults import Array
from workers.interpreter.formats import TensorValue, TritonType, format_of, round_to

Combine = Callable[..., object]
"""A jit function of two tuples of elements, translated to Python."""

Pair = Callable[[Array, int], Sequence[Array]]
"""Function that pairs elements for combination: it splits an array into two, each half as long along an axis."""

DIRECT: dict[str, Callable[..., Array]] = {
    "_elementwise_max": np.fmax.reduce,
    "_elementwise_min": np.fmin.reduce,
    "_sum_combine": np.add.reduce,
    "_xor_combine": np.bitwise_xor.reduce,
    "_or_combine": np.bitwise_or.reduce,
}
"""Reductions of one tensor by the name of Triton's own combine function."""

DIRECT_SCANS: dict[str, Callable[..., Array]] = {"_sum_combine": np.cumsum, "_prod_combine": np.cumprod}
"""Scans of one tensor by the name of Triton's own combine function."""

_STANDARD = "triton.language.standard"


def reduce(input: object, axis: object, combine_fn: Combine, keep_dims: object = False, **ignored: object) -> object:
    """Evaluate `tl.reduce` over one axis, or over all elements.

    Narrow floats are summed as a tree that rounds after every addition, as the hardware does.
    """
    tensors = _tensors(input)
    place, keep = _plain(axis), bool(_plain(keep_dims))
    rank = len(tensors[0].type.shape)
    if place is None:
        arrays = [tensor.handle.data.reshape((*tensor.handle.data.shape[:2], -1)) for tensor in tensors]
        position = 0
    else:
        arrays = [tensor.handle.data for tensor in tensors]
        position = int(place) % rank
    dtypes = [tensor.type.scalar for tensor in tensors]
    direct = _direct(DIRECT, combine_fn, dtypes)
    if direct is not None:
        results = [direct(arrays[0], axis=position + 2).astype(format_of(dtypes[0]).held, copy=False)]
    else:
        pair = _neighbours if _is_standard(combine_fn) else _halves
        results = _tree(arrays, dtypes, position + 2, combine_fn, pair)
    if keep:
        extra = [position + 2] if place is not None else list(range(2, rank + 2))
        results = [np.expand_dims(result, tuple(extra)) for result in results]
    made = tuple(_wrap(result, dtype) for result, dtype in zip(results, dtypes, strict=True))
    return made if isinstance(input, (tuple, tl.tuple)) else made[0]


def scan(input: object, axis: object, combine_fn: Combine, reverse: object = False, **ignored: object) -> object:
    """Evaluate `tl.associative_scan` along one axis."""
    tensors = _tensors(input)
    position = int(_plain(axis) or 0) % len(tensors[0].type.shape) + 2
    dtypes = [tensor.type.scalar for tensor in tensors]
    backward = bool(_plain(reverse))
    arrays = [np.flip(t.handle.data, position) if backward else t.handle.data for t in tensors]
    direct = _direct(DIRECT_SCANS, combine_fn, dtypes)
    if direct is not None:
        results = [direct(arrays[0], axis=position).astype(format_of(dtypes[0]).held, copy=False)]
    else:
        results = _doubling(arrays, dtypes, position, combine_fn)
    results = [np.flip(result, position) if backward else result for result in results]
    made = tuple(_wrap(result, dtype) for result, dtype in zip(results, dtypes, strict=True))
    return made if isinstance(input, (tuple, tl.tuple)) else made[0]


def _direct(
    table: dict[str, Callable[..., Array]], combine_fn: Combine, dtypes: Sequence[TritonType]
) -> Callable[..., Array] | None:
    """Return the numpy function with the same result, if there is one."""
    name = getattr(combine_fn, "__name__", "")
    if len(dtypes) == 1 and dtypes[0] == tl.int1:  # Sums of bits wrap; numpy's of booleans do not.
        return None
    if len(dtypes) != 1 or not _is_standard(combine_fn) or name not in table:
        return None
    exact = name in ("_elementwise_max", "_elementwise_min") or not format_of(dtypes[0]).torch_name
    return table[name] if exact else None


def _is_standard(combine_fn: Combine) -> bool:
    """True if it is one of Triton's own."""
    return bool(getattr(combine_fn, "__module__", "") == _STANDARD)


def _tree(arrays: list[Array], dtypes: Sequence[TritonType], axis: int, combine_fn: Combine, pair: Pair) -> list[Array]:
    """Combine pairs until one element is left.

    Threads combine distant elements in an order that depends on the layout. So a candidate's function must be
    commutative too, and gets the two halves of the rest, as threads of a warp do.
    """
    while arrays[0].shape[axis] > 1:
        left, right = zip(*(pair(array, axis) for array in arrays), strict=True)
        arrays = _combine(left, right, dtypes, combine_fn)
    return [np.take(array, 0, axis=axis) for array in arrays]


def _neighbours(array: Array, axis: int) -> Sequence[Array]:
    return tuple(array[(*(slice(None),) * axis, slice(start, None, 2))] for start in (0, 1))


def _halves(array: Array, axis: int) -> Sequence[Array]:
    return np.split(array, 2, axis)


def _doubling(arrays: list[Array], dtypes: Sequence[TritonType], axis: int, combine_fn: Combine) -> list[Array]:
    """Scan inclusively in log2(n) steps; each doubles the number of predecessors that an element covers."""
    count, distance = arrays[0].shape[axis], 1
    positions = np.arange(count).reshape((-1,) + (1,) * (arrays[0].ndim - 1 - axis))
    while distance < count:
        shifted = [np.roll(array, distance, axis) for array in arrays]
        combined = _combine(shifted, arrays, dtypes, combine_fn)
        arrays = [np.where(positions >= distance, new, old) for new, old in zip(combined, arrays, strict=True)]
        distance *= 2
    return arrays


def _combine(
    left: Sequence[Array], right: Sequence[Array], dtypes: Sequence[TritonType], combine_fn: Combine
) -> list[Array]:
    operands = [TensorValue(array, dtype) for side in (left, right) for array, dtype in zip(side, dtypes, strict=True)]
    results = apply_to_elements(combine_fn, operands)
    values = results if isinstance(results, (tuple, tl.tuple)) else (results,)
    return [round_to(value.handle.data, dtype) for value, dtype in zip(values, dtypes, strict=True)]


def _tensors(input: object) -> tuple[TritonType, ...]:
    return tuple(input) if isinstance(input, (tuple, tl.tuple)) else (input,)


def _plain(value: object) -> int | None:
    """Return the number in a constexpr or a scalar."""
    inner = getattr(value, "value", value)
    return int(inner) if isinstance(inner, SupportsIndex) else None


def _wrap(data: Array, dtype: TritonType) -> TritonType:
    kind = tl.block_type(dtype, list(data.shape[2:])) if data.ndim > 2 else dtype
    return tl.tensor(TensorValue(data, dtype), kind)
