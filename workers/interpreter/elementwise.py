"""Elementwise calls: functions that the compiler applies to single elements, applied here to whole blocks at once.

Such a function receives values with scalar types, so its questions about them are answered as in the compiler. Where
elements disagree on a condition of it, it is applied to either part of them alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
from triton import language as tl

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType

_called: list[Callable[..., object]] = []
# The stack of functions that are being called.


class _ElementsDisagree(Exception):
    """Elements of blocks disagree on a condition, whose values are `values`."""

    def __init__(self, values: Array) -> None:
        super().__init__("elements disagree")
        self.values = values


def apply_to_elements(function: Callable[..., object], operands: Sequence[TensorValue]) -> object:
    """Apply a function of scalars to blocks.

    Raises:
        NotInterpretable: If elements disagree on a condition, and the compiler assumes false values or other types.
    """
    _called.append(function)
    try:
        return function(*(tl.tensor(operand, operand.dtype.scalar) for operand in operands))
    except _ElementsDisagree as stopped:
        values = stopped.values
    finally:
        _called.pop()
    if any(operand.belief is not None for operand in operands):
        raise NotInterpretable("a condition of a function of single elements depends on a false hint")
    arrays = np.broadcast_arrays(values != 0, *(operand.data for operand in operands))
    parts = []
    for part in (arrays[0], ~arrays[0]):
        chosen = [_chosen(data, each, part) for data, each in zip(arrays[1:], operands, strict=True)]
        parts.append(_values(apply_to_elements(function, chosen)))
    joined = [_joined(arrays[0], *pair) for pair in zip(*parts, strict=True)]
    return joined[0] if len(joined) == 1 else tuple(joined)


def agreed_element(values: Array) -> int | bool | None:
    """Return the one value that all elements have where a function is applied to them; None outside of such a function.

    Raises:
        _ElementsDisagree: If they have several; the function is then applied to either part alone.
    """
    if not _called:
        return None
    if not (values == values.flat[0]).all():
        raise _ElementsDisagree(values)
    value: int | bool = values.flat[0].item()
    return value


def _chosen(data: Array, operand: TensorValue, part: Array) -> TensorValue:
    return TensorValue(data[part].reshape(1, 1, -1), operand.dtype)


def _values(result: object) -> tuple[TritonType, ...]:
    return tuple(result) if isinstance(result, tuple | tl.tuple) else (result,)


def _joined(part: Array, one: TritonType, other: TritonType) -> TritonType:
    """Return a result from those of the elements of a part and of the others."""
    if one.type != other.type:
        raise NotInterpretable("branches of a function of single elements return different types")
    data = np.empty(part.shape, one.handle.data.dtype)
    for place, result in ((part, one), (~part, other)):
        data[place] = np.broadcast_to(result.handle.data.reshape(-1), (int(place.sum()),))
    return tl.tensor(TensorValue(data, one.handle.dtype), one.type)


def call_elementwise(function: Callable[..., object], tensors: Sequence[TritonType]) -> object:
    """Evaluate `tl.map_elementwise` of tensors of one shape. Returns a tensor, or several."""
    results = apply_to_elements(function, [tensor.handle for tensor in tensors])
    kind = tensors[0].type
    if not kind.is_block():
        return results

    def block(result: TritonType) -> TritonType:
        data = result.handle.data
        rows = data.reshape((*data.shape[:2], *(data.shape[2:] or (1,) * len(kind.shape))))
        whole = TensorValue(np.broadcast_to(rows, (*rows.shape[:2], *kind.shape)), result.type)
        return tl.tensor(whole, kind.with_element_ty(result.type))

    return tuple(map(block, results)) if isinstance(results, tuple | tl.tuple) else block(results)


def require_outside(what: str) -> None:
    """Refuse a value that exists once per program inside a function of single elements.

    Raises:
        NotInterpretable: If such a function is being called.
    """
    if _called:
        raise NotInterpretable(f"a function of single elements asks for {what}: hand it over as an argument")
