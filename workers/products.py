"""Products of a reference that are not finite.

Matrix products have NaN and infinities where IEEE has them. Products along an axis may overflow where they are made in
parts.
"""

from collections.abc import Sequence
from math import log

import torch

from workers.float8 import readable

PART_ELEMENTS = 2**27
"""Elements of factors and results up to which a product that is not finite is worked out at once: masks of the
probabilities of attention, 2 * 10**9 at 4x32x4096x4096, would take 90 GB."""

LOG_LARGEST = log(torch.finfo(torch.float32).max) - 1
"""Logarithm of the largest product in float32, with room for the rounding of what is multiplied."""
LOG_ZERO = -1e6
"""Logarithm that stands for that of zero: what follows a zero is multiplied anew."""


def is_finite(*tensors: torch.Tensor) -> bool:
    """Return True if tensors hold neither NaN nor infinities.

    It takes one pass over each without a copy, and one wait for the card.
    """
    ends = [end.double() for tensor in tensors if tensor.numel() for end in torch.aminmax(readable(tensor))]
    return not ends or bool(torch.stack(ends).isfinite().all())


def multiply(args: Sequence[torch.Tensor], *, alpha: float = 1, beta: float = 1) -> torch.Tensor:
    """Return a matrix product with NaN and infinities where IEEE has them: BLAS pads with zeros, and 0 x Inf is NaN.

    Args:
        args: Addends, then both factors.
        alpha: What the product is multiplied by.
        beta: What addends are multiplied by.
    """
    *addends, left, right = args
    wide = torch.promote_types(left.dtype, torch.float32)
    product: torch.Tensor = _product(left.to(wide), right.to(wide)) * alpha
    for addend in addends:
        product = product + addend * beta
    return product.to(left.dtype)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A product of matrices, or of as many pairs of them as both factors hold, with what is not finite."""
    product = left.new_empty((*left.shape[:-1], right.shape[-1]))
    _multiply_into(product, left, right)
    return product


def _multiply_into(product: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Work a product out part by part: masks take ten times as much memory as what they are of."""
    if max(product.numel(), left.numel(), right.numel()) <= PART_ELEMENTS or product.numel() == 1:
        product.copy_(_product_of_part(left, right))
        return
    *pairs, rows, columns = product.shape
    axis = 0 if pairs and pairs[0] > 1 else -2 if rows >= columns else -1
    lefts = (left, left) if axis == -1 else left.tensor_split(2, axis)
    rights = (right, right) if axis == -2 else right.tensor_split(2, axis)
    for parts in zip(product.tensor_split(2, axis), lefts, rights, strict=True):
        _multiply_into(*parts)


def _product_of_part(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """BLAS multiplies what is finite; which sums have terms that are not is told by products of small whole numbers."""
    one, other = _Terms(left), _Terms(right)
    product = left.nan_to_num(0.0, 0.0, 0.0) @ right.nan_to_num(0.0, 0.0, 0.0)
    infinite = _meet((one.is_infinite, other.is_signed), (one.is_signed, other.is_infinite))
    signed = _meet((one.infinite, other.sign), (one.sign, other.infinite))
    lost = _meet((one.is_infinite, other.is_zero), (one.is_zero, other.is_infinite)) > 0
    lost |= one.nan.any(-1, keepdim=True) | other.nan.any(-2, keepdim=True)
    rising, falling = infinite > -signed, infinite > signed
    for where, value in ((rising, float("inf")), (falling, float("-inf")), (lost, float("nan"))):
        product += torch.where(where, value, 0.0)
    return product


class _Terms:
    """Masks of a factor that decide about infinite terms: its signs (0 for NaN), and those of its infinities alone."""

    def __init__(self, values: torch.Tensor) -> None:
        self.nan = values.isnan()
        self.sign = values.sign().nan_to_num(0.0).float()
        self.infinite = torch.where(values.isinf(), self.sign, 0.0)
        self.is_signed, self.is_infinite = self.sign.abs(), self.infinite.abs()
        self.is_zero = (values == 0).float()


def _meet(*pairs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Sums of products of such numbers, of a left and a right factor: exact below 2^23 inner indices."""
    lefts, rights = ([pair[side] for pair in pairs] for side in (0, 1))
    return torch.cat(lefts, -1) @ torch.cat(rights, -2)


def may_overflow(x: torch.Tensor, axis: int, *, part: int = PART_ELEMENTS) -> torch.Tensor:
    """Return the places up to which some stretch of factors along an axis has a product beyond float32.

    In scans and trees the stretch is multiplied by itself first. Then the product of all is infinite, or NaN if others
    are zero, where from left to right it may be small.

    Args:
        x: Factors.
        axis: The axis.
        part: Elements that are looked at at once, about.
    """
    if not x.numel():
        return torch.zeros_like(x, dtype=torch.bool)
    rows = x.movedim(axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    found = torch.cat([_overflows(some) for some in torch.split(flat, max(1, part // flat.shape[1]))])
    return found.reshape(rows.shape).movedim(-1, axis)


def _overflows(rows: torch.Tensor) -> torch.Tensor:
    sums = rows.double().abs().log().clamp(min=LOG_ZERO).cumsum(-1)
    before = torch.nn.functional.pad(sums[:, :-1], (1, 0)).cummin(-1).values.clamp(max=0.0)
    return (sums - before).cummax(-1).values > LOG_LARGEST
