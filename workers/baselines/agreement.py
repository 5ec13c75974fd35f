"""Comparison of a contender's outputs with those of eager PyTorch: a wrong function is not a baseline."""

from collections.abc import Callable, Sequence
from math import sqrt

import torch

from workers.checks.tolerance import SENSITIVITY_WORST
from workers.protocol import Operator

ROUNDOFFS = 16.0
"""Roundoffs of the output's dtype by which an element may differ, in units of its value plus the root mean square of
its row, or of all rows if they are narrow. Two correct results round at most twice each, and the worst of millions of
elements lies at six deviations."""
SUM_ROUNDOFFS = 2.0
"""Roundoffs of float32, times the root of the summands, that another order of summation may lose. For the worst element
it is four times the limit of the checks for a candidate's root mean square."""
FEWEST_COLUMNS = 16
"""Minimum elements of a row for a root mean square of its own. A sum that happens to be near 0 is most of a narrower
row, and two ways to round its summands then differ by many times its value."""
PART_ELEMENTS = 2**26
"""Number of elements compared at a time: in float64, that takes twelve times their bytes."""
TF32_SHARE = 1e-2
"""Tolerance if TF32 is allowed: as for the worst element of a candidate (`workers.checks.tolerance`)."""


class Disagrees(Exception):
    """A contender computes a different result; the message names the difference."""


def most_summands(inputs: Sequence[torch.Tensor]) -> int:
    """Return the most terms of a sum: the longest axis, or a filter's elements per step of its longest axis.

    A filter is the smallest of the inputs with the most axes. In a product of two matrices it adds nothing to the
    longest axis.
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
    """Compare outputs with those of eager PyTorch.

    Args:
        operator: The contract.
        got: Outputs of a contender.
        expected: Outputs of the eager reference on equal inputs.
        summands: Maximum number of terms in a sum.
        nudged: Returns outputs of the eager reference on inputs that are a few roundoffs of float32 off. Called if
            results differ by more than rounding alone explains: a norm, for instance, enlarges the small difference of
            two large sums.

    Raises:
        Disagrees: If they differ in number, shape, dtype or value.
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
    """Return the tolerance of an element, in units of its value plus the root mean square around it."""
    share = ROUNDOFFS * torch.finfo(dtype).eps / 2
    share += SUM_ROUNDOFFS * torch.finfo(torch.float32).eps / 2 * sqrt(summands)
    return max(share, TF32_SHARE) if operator.precision.allow_tf32 else share


def _most_excess(share: float, got: torch.Tensor, expected: torch.Tensor, nudged: torch.Tensor) -> float:
    """Return the largest difference in units of the tolerance; computed part by part.

    `SENSITIVITY_WORST` times the largest shift by a nudge is allowed too. It is the largest of all rows: one in which a
    threshold leaves few elements may itself not be moved.
    """
    columns = expected.shape[-1] if expected.ndim else 1
    rows = max(1, PART_ELEMENTS // columns)
    mine, its, moved = (torch.split(tensor.reshape(-1, columns), rows) for tensor in (got, expected, nudged))
    shifts = [(one.double() - two).abs().nan_to_num(0.0, 0.0, 0.0).max() for one, two in zip(moved, its, strict=True)]
    most = SENSITIVITY_WORST * torch.stack(shifts).max()
    found = [_excess(share, one.double(), two.double(), most) for one, two in zip(mine, its, strict=True)]
    return float(torch.stack(found).max())


def _excess(share: float, got: torch.Tensor, expected: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Return the largest difference in some rows."""
    squares = expected.square()
    mean = squares.mean(1, keepdim=True) if expected.shape[1] >= FEWEST_COLUMNS else squares.mean()
    scale = mean.sqrt() + expected.abs()
    allowed = torch.maximum(share * scale, moved).clamp(min=torch.finfo(torch.float32).tiny)
    return ((got - expected).abs() / allowed).max()
