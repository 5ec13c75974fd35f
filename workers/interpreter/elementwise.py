"""Elementwise calls: functions that the compiler applies to single elements, applied here to whole blocks at once.

Such a function receives values with scalar types, so its questions about them are answered as in the compiler.
"""

from collections.abc import Callable, Sequence

import numpy as np
from triton import language as tl

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType

_called: list[Callable[..., object]] = []
# The stack of functions that are being called.


def apply_to_elements(function: Callable[..., object], operands: Sequence[TensorValue]) -> object:
    """Apply a function of scalars to blocks."""
    _called.append(function)
    try:
        return function(*(tl.tensor(operand, operand.dtype.scalar) for operand in operands))
    finally:
        _called.pop()


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
