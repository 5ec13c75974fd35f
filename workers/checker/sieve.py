"""The sieve: whether an output that was measured against its answer needs a closer look."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.checker.answers import Near
from workers.checks.bias import DEVIATIONS, ROWS
from workers.checks.error_ratio import FRACTION


@dataclass(frozen=True)
class Measures:
    """Errors of several outputs of one shape, all (outputs, rows) float32, each in units of the answer's `inverse`.

    Attributes:
        squares: Sums of squared errors.
        products: Sums of errors x values.
        worst: Largest error over what that element may miss.
        crowd: Number of elements that miss more than half of what they may.
        strange: Number of elements that are NaN or infinite where the answer is not, or otherwise than there.
    """

    squares: torch.Tensor
    products: torch.Tensor
    worst: torch.Tensor
    crowd: torch.Tensor
    strange: torch.Tensor


def suspects(measures: Measures, answers: Sequence[Near]) -> torch.Tensor:
    """Which outputs keep one of the bounds of their answers not, (outputs,) bool.

    What passes here passes `workers.checks.error_ratio`, `special_values` and `bias` too; they may forgive more.
    """
    within = (measures.squares <= torch.stack([answer.squares for answer in answers])) & (measures.worst <= 1)
    crowd = max(1.0, FRACTION * answers[0].values.numel())
    right = within.all(1) & (measures.crowd.sum(1) <= crowd) & (measures.strange.sum(1) == 0)
    return ~right | _biased(measures, answers)


def _biased(measures: Measures, answers: Sequence[Near]) -> torch.Tensor:
    slopes = torch.stack([answer.gains for answer in answers])
    usable = slopes > 0
    count = usable.sum(1)
    slopes = slopes * measures.products
    mean = slopes.sum(1) / count
    variance = torch.where(usable, slopes - mean[:, None], 0.0).square().sum(1) / (count - 1)
    limits = torch.tensor([answer.gain_limit for answer in answers], device=slopes.device)
    return (count >= ROWS) & (mean.abs() > torch.maximum(limits, DEVIATIONS * (variance / count).sqrt()))
