"""Matrix products of float32 operands by requested precision: one product of rounded operands, or several of parts.

Triton splits operands into parts for the matrix unit and adds their products, the smallest first, from zero. NaN that
an infinity left in the smaller products is dropped before the largest is added. The accumulator is added last, in
float32. All this was observed in the output of Triton 3.7 for sm_90. The unit's own rounding of sums is not imitated.
"""

import numpy as np
import torch
from triton import language as tl

from workers.interpreter.faults import Array
from workers.interpreter.formats import as_tensor, round_to, round_to_tf32, truncate_to_tf32

ORDERS: dict[str, tuple[tuple[int, int], ...]] = {
    "TF32": ((0, 0),),
    "TF32x3": ((1, 0), (0, 1), (0, 0)),
    "BF16x3": ((1, 0), (0, 1), (0, 0)),
    "BF16x6": ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)),
}
"""Products by precision, in order: the part of the left operand and the part of the right, 0 the largest."""

TF32_TIME = 2
"""Time of a TF32 product relative to a bfloat16 product, from the data sheets of all targets that have both."""


def multiply(left: Array, right: Array, addend: Array, precision: str) -> Array:
    """Multiply float32 tiles and add an accumulator, in float32; unknown precisions multiply unrounded operands."""
    if precision not in ORDERS:
        return _product(left, right) + addend
    *smaller, largest = ORDERS[precision]
    count = 1 + max(number for pair in ORDERS[precision] for number in pair)
    lefts, rights = (_parts(data, count, precision) for data in (left, right))
    total = np.zeros((), dtype=np.float32)
    for one, other in smaller:
        total = _product(lefts[one], rights[other]) + total
    total = np.where(np.isnan(total), np.float32(0), total)
    return _product(lefts[largest[0]], rights[largest[1]]) + total + addend


def unit_work(precision: str) -> int:
    """Return the bfloat16 products that the matrix unit could do in the time of one product at a precision."""
    return len(ORDERS.get(precision, [()])) * (TF32_TIME if precision.startswith("TF32") else 1)


def _product(left: Array, right: Array) -> Array:
    return np.asarray(torch.matmul(as_tensor(left), as_tensor(right)).numpy())


def _parts(data: Array, count: int, precision: str) -> list[Array]:
    """Split an operand into parts for the unit, the largest first; their sum is the operand up to the last rounding."""
    if precision == "TF32":
        return [truncate_to_tf32(data)]
    if precision == "TF32x3":
        large = round_to_tf32(data)
        return [large, truncate_to_tf32(data - large)]
    parts = []
    for _ in range(count):
        parts.append(round_to(data, tl.bfloat16))
        data = data - parts[-1]
    return parts
