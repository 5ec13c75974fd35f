"""Float8 values for checks: torch stores and converts them, but has little arithmetic for them.

The last rounding to eight bits alone makes errors of up to 6 or 12 %. The arithmetic before it is as exact as for
other dtypes, and is checked by `beyond_rounding`: the distance of a value from all values that round to a result.
"""

from functools import cache
from math import log2

import torch

CARRIER = torch.bfloat16
"""The coarsest dtype that float8 is rounded from: kernels hold factors and intermediate values in it, never in float8
itself."""


def is_float8(dtype: torch.dtype) -> bool:
    """Return True if a dtype is float8."""
    return dtype.is_floating_point and dtype.itemsize == 1


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return float8 as float32, which holds every value of it; other tensors unchanged."""
    return tensor.float() if is_float8(tensor.dtype) else tensor


def carrier(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype whose roundoff bounds results before their last rounding: their own, or `CARRIER`."""
    return CARRIER if is_float8(dtype) else dtype


def mantissa_bits(dtype: torch.dtype) -> int:
    """Return the mantissa bits of a float8 after its leading one; 0 for other dtypes."""
    return round(-log2(torch.finfo(dtype).eps)) if is_float8(dtype) else 0


def beyond_rounding(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return the errors of float8 results that their last rounding does not explain, in float64.

    An error is zero where the expected value rounds to the result, either way in a tie. Elsewhere it is the distance to
    the nearest value that does, positive where the result is too large. NaN and infinities stay unchanged.
    """
    low, high = (bound.to(got.device)[got.view(torch.uint8).long()] for bound in _rounded_from(got.dtype))
    return expected.clamp(low, high) - expected


@cache
def _rounded_from(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the largest value that round to each of the 256 results, float64."""
    upper = torch.arange(128, dtype=torch.uint8).view(dtype).double()
    sizes = upper[upper.isfinite()]
    steps = sizes.diff() / 2
    low, high = upper.clone(), upper.clone()
    low[: len(sizes)] -= torch.cat([steps[:1], steps])
    high[: len(sizes)] += torch.cat([steps, steps[-1:]])
    return torch.cat([low, -high]), torch.cat([high, -low])
