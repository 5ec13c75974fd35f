"""The sieve in torch: how near an output that was measured is to needing a closer look, as `kernels.sift` says it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.checks.bias import DEVIATIONS, ROWS, SPREAD
from workers.checks.error_ratio import FRACTION
from workers.oracle.answers import FloatAnswer


@dataclass(frozen=True)
class Measures:
    """Errors of several outputs of one shape, all (outputs, rows) float32, each in units of the answer's `inverse`.

    Errors are those of `workers.checks.tolerance.RowErrors`: of float8, what the last rounding does not explain.

    Attributes:
        squares: Sums of squared errors.
        products: Sums of errors x values; of float8 those of `Errors.to_average`.
        worst: Largest error over what that element may miss.
        crowd: Number of elements that miss more than half of what the worst of the row may, and roundoffs of their own.
        strange: Number of elements that are NaN or infinite where the answer is not, or otherwise than there.
    """

    squares: torch.Tensor
    products: torch.Tensor
    worst: torch.Tensor
    crowd: torch.Tensor
    strange: torch.Tensor


def margins(measures: Measures, answers: Sequence[FloatAnswer]) -> torch.Tensor:
    """How near errors and bias of each output are to the bounds of its answer, (2, outputs) float32."""
    allowed = torch.stack([answer.squares for answer in answers])
    rows, crowd = (measures.squares / allowed).sqrt(), measures.crowd.sum(1)
    share = FRACTION * answers[0].values.numel()
    few = (crowd <= share) & ((rows > 1).sum(1) <= FRACTION * rows.shape[1])
    leeway = torch.stack([answer.leeway for answer in answers]).where(few[:, None, None], 1.0)
    most = torch.maximum(rows / leeway[:, 0], measures.worst / leeway[:, 1]).amax(1)
    crowded = crowd > max(1.0, share)
    out = crowded | (measures.strange.sum(1) > 0) | ~most.isfinite()
    return torch.stack([torch.where(out, torch.inf, most), _leanings(measures, answers)])


def _leanings(measures: Measures, answers: Sequence[FloatAnswer]) -> torch.Tensor:
    """How near the bias of each output is to what is nobody's concern; zero where there are too few rows to tell.

    Rows that differ much could hide one: with an answer that counts them all, that needs a closer look too.
    """
    slopes = torch.stack([answer.gains for answer in answers])
    usable = slopes > 0
    count = usable.sum(1)
    slopes = slopes * measures.products
    mean = slopes.sum(1) / count
    spread = (torch.where(usable, slopes - mean[:, None], 0.0).square().sum(1) / (count - 1)).sqrt()
    limits = torch.tensor([answer.gain_limit for answer in answers]).to(slopes.device, non_blocking=True)
    widened = torch.tensor([answer.widened for answer in answers]).to(slopes.device, non_blocking=True)
    settled = mean.abs() / torch.maximum(limits, DEVIATIONS * spread / count.sqrt())
    leaning = torch.where(widened, settled, torch.maximum(mean.abs(), spread / SPREAD) / limits)
    return torch.where(count >= ROWS, leaning, 0.0).nan_to_num(torch.inf, torch.inf)
