"""Check: results are not all a little too large or too small."""

import torch

from workers.checks.base import Check, Evidence, Finding
from workers.checks.tolerance import SUM_ROUNDOFFS, TF32, group_size, summation_roundoff
from workers.float8 import readable
from workers.protocol import Outcome

DRAWS = ("normal", "heavy", "shifted", "timed")
"""Draws whose values differ enough for rounding errors to be independent of the values."""
ROWS = 16
"""Fewest rows to judge by: errors of one row may share a cause, such as a rounded probability, without being biased."""
DEVIATIONS = 6.0
"""Standard errors by which the mean row must be off."""
GAIN_ROUNDOFFS = 1 / 8
"""Common factor, in roundoffs of the output, below which a bias does not matter: 0.05% for bfloat16."""
NATIVE_GAINS = 3.0
"""Times the native reference's own gain."""


class Bias(Check):
    """Errors do not grow with the values: catches factors, truncation and missing terms below the error bound."""

    name = "bias"

    def examine(self, evidence: Evidence) -> Finding:
        """Regress errors on expected values in every row; the mean slope must be near zero, or by chance."""
        worst = 0.0
        for number, output in enumerate(evidence.operator.results):
            got, expected = evidence.outputs[number], evidence.reference.expected[number]
            if evidence.draw not in DRAWS or not got.is_floating_point() or got.numel() == 0:
                continue
            gains = _gains(got, expected)
            if len(gains) < ROWS:
                continue
            gain = float(gains.mean())
            chance = DEVIATIONS * float(gains.std()) / len(gains) ** 0.5
            measure = abs(gain) / max(gain_limit(evidence, number), chance)
            if measure > 1:
                reason = (
                    f"output '{output.name}' is too {'large' if gain > 0 else 'small'} by {abs(gain):.2%} throughout "
                    f"({evidence.shape.key}, {evidence.draw} inputs): look for a factor, a missing term, or rounding "
                    "by truncation"
                )
                return Finding(measure, Outcome.PRECISION, reason)
            worst = max(worst, measure)
        return Finding(worst)


def gain_limit(evidence: Evidence, number: int) -> float:
    """Mean slope up to which the bias of an output, by its number, is nobody's concern."""
    native, expected = evidence.reference.native[number], evidence.reference.expected[number]
    return max(_floor(evidence, native.dtype), NATIVE_GAINS * abs(float(_gains(native, expected).mean())))


def _floor(evidence: Evidence, dtype: torch.dtype) -> float:
    if dtype == torch.float32 and evidence.operator.precision.allow_tf32:
        return TF32.scale_rms
    return max(GAIN_ROUNDOFFS * torch.finfo(dtype).eps / 2, 4 * SUM_ROUNDOFFS * summation_roundoff(evidence))


def _gains(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Slope of errors over values in each row that has any; zero is no bias."""
    usable = readable(got).isfinite() & expected.isfinite()
    columns = group_size(expected.shape)
    values = torch.where(usable, expected, 0.0).reshape(-1, columns)
    errors = torch.where(usable, got.double() - expected, 0.0).reshape(-1, columns)
    power = values.square().sum(1)
    return ((values * errors).sum(1) / power)[power > 0]
