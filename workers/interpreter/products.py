"""Matrix products of float32 operands by the precision asked for: one of what the matrix unit reads, or several.

Triton splits operands into parts that the unit can hold and adds their products up, the smallest first, from zero; NaN
that an infinity left in the smaller ones is dropped before the largest is added, and the accumulator is added last, in
float32. Read off what Triton 3.7 makes of each precision for sm_90; what the unit itself drops while it sums is not
imitated.
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
"""Products by precision, in their order: which part of the left operand times which of the right, 0 the largest."""

TF32_TIME = 2
"""Time of a product of TF32 over that of one of bfloat16, by the data sheets of all targets that have both."""


def multiply(left: Array, right: Array, addend: Array, precision: str) -> Array:
    """The product of float32 tiles, plus an accumulator, in float32; precisions without parts multiply as they are."""
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
    """How many products of bfloat16 the matrix unit could do in the time that one takes at a precision."""
    return len(ORDERS.get(precision, [()])) * (TF32_TIME if precision.startswith("TF32") else 1)


def _product(left: Array, right: Array) -> Array:
    return np.asarray(torch.matmul(as_tensor(left), as_tensor(right)).numpy())


def _parts(data: Array, count: int, precision: str) -> list[Array]:
    """Parts of an operand as the unit reads them, the largest first; they add up to it but for the last rounding."""
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
