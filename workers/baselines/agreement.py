"""Comparison of a contender's outputs with those of eager PyTorch: a wrong function, however fast, is no baseline."""

from collections.abc import Callable, Sequence
from math import sqrt

import torch

from workers.checks.tolerance import SENSITIVITY_WORST
from workers.protocol import Operator

ROUNDOFFS = 16.0
"""Roundoffs of the output's dtype by which an element may differ, in units of its value plus the root mean square of
its row. Two honest results round twice each at most, and the worst of millions of elements lies at six deviations."""
SUM_ROUNDOFFS = 2.0
"""Roundoffs of float32, times the root of the summands, that another order of summation may lose; four times what the
checks allow a candidate's root mean square, for the worst element."""
PART_ELEMENTS = 2**26
"""Elements of rows that are compared at a time: in float64, that takes twelve times their bytes."""
TF32_SHARE = 1e-2
"""Tolerance where TF32 is allowed: as for the worst element of a candidate (`workers.checks.tolerance`)."""


class Disagrees(Exception):
    """Two contenders compute different things; the message says how different."""


def most_summands(inputs: Sequence[torch.Tensor]) -> int:
    """Count the most terms of one sum: the longest axis, or the elements of a filter per step of its longest axis.

    A filter is the smallest of the inputs with the most axes. In a product of two matrices it says no more than the
    longest axis does.
    """
    axes = max((tensor.ndim for tensor in inputs), default=0)
    smallest = min((tensor for tensor in inputs if tensor.ndim == axes), key=torch.Tensor.numel, default=None)
    longest = max((size for tensor in inputs for size in tensor.shape), default=1)
    if smallest is None or not smallest.numel() or not axes:
        return max(1, longest)
    return max(longest, smallest.numel() // max(smallest.shape))


def check(
    operator: Operator,
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    summands: int,
    nudged: Callable[[], Sequence[torch.Tensor]],
) -> None:
    """Hold outputs against those of eager PyTorch.

    Args:
        operator: The contract.
        got: Outputs of a contender.
        expected: Outputs of the eager reference on equal inputs.
        summands: Most terms of one sum.
        nudged: Gives outputs of the eager reference on inputs that are a few roundoffs of float32 off; asked where
            results differ by more than rounding alone explains: a norm, for instance, makes the small difference of
            two large sums a large one.

    Raises:
        Disagrees: If they differ in number, form or value.
    """
    if len(got) != len(expected):
        raise Disagrees(f"it returns {len(got)} results, the reference {len(expected)}")
    for number, (item, mine, its) in enumerate(zip(operator.results, got, expected, strict=True)):
        if mine.shape != its.shape or mine.dtype != its.dtype:
            raise Disagrees(
                f"'{item.name}' is {tuple(mine.shape)} {mine.dtype}, the reference's {tuple(its.shape)} {its.dtype}"
            )
        if not its.is_floating_point():
            if not torch.equal(mine, its):
                raise Disagrees(f"'{item.name}' differs from the reference's")
        elif its.numel():
            share = _share(operator, its.dtype, summands)
            excess = _most_excess(share, mine, its, its)
            if not excess <= 1:  # NaN disagrees too
                excess = _most_excess(share, mine, its, nudged()[number])
            if not excess <= 1:
                raise Disagrees(f"'{item.name}' misses the reference's by {excess:.3g} times what rounding explains")


def _share(operator: Operator, dtype: torch.dtype, summands: int) -> float:
    """Return the tolerance of an element, in units of its value plus the root mean square of its row."""
    share = ROUNDOFFS * torch.finfo(dtype).eps / 2
    share += SUM_ROUNDOFFS * torch.finfo(torch.float32).eps / 2 * sqrt(summands)
    return max(share, TF32_SHARE) if operator.precision.allow_tf32 else share


def _most_excess(share: float, got: torch.Tensor, expected: torch.Tensor, nudged: torch.Tensor) -> float:
    """The worst element, in units of what it may differ by; part by part."""
    columns = expected.shape[-1] if expected.ndim else 1
    rows = max(1, PART_ELEMENTS // columns)
    parts = zip(*(torch.split(tensor.reshape(-1, columns), rows) for tensor in (got, expected, nudged)), strict=True)
    return float(torch.stack([_excess(share, *(part.double() for part in each)) for each in parts]).max())


def _excess(share: float, got: torch.Tensor, expected: torch.Tensor, nudged: torch.Tensor) -> torch.Tensor:
    """The worst element of some rows, in the same units: `SENSITIVITY_WORST` moves of the row count as well."""
    scale = expected.square().mean(1, keepdim=True).sqrt() + expected.abs()
    moved = SENSITIVITY_WORST * (nudged - expected).abs().amax(1, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
    allowed = torch.maximum(share * scale, moved).clamp(min=torch.finfo(torch.float32).tiny)
    return ((got - expected).abs() / allowed).max()
