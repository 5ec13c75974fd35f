"""Check: results are not systematically too large or too small."""

from dataclasses import dataclass

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.tolerance import SUM_ROUNDOFFS, TF32, RowErrors, moves_in_rows, rms, summation_roundoff
from workers.float8 import carrier
from workers.protocol import Outcome

DRAWS = ("normal", "heavy", "shifted", "timed")
"""Draws whose values vary enough for rounding errors to be independent of the values."""
ROWS = 16
"""Minimum number of rows for a verdict: errors of one row may share a cause, such as a rounded probability, without
bias."""
DEVIATIONS = 6.0
"""Standard errors by which the mean row must be off."""
GAIN_ROUNDOFFS = 1 / 8
"""Common factor below which a bias does not matter, in roundoffs of the output (of the dtype before the last rounding
for float8): 0.05% for float8 and bfloat16."""
NATIVE_GAINS = 3.0
"""Factor on the native reference's own gain."""
SPREAD = 8.0
"""Factor on the limit of the mean up to which rows may differ from each other (standard deviation): usually one
roundoff. A larger spread is not rounding and could hide a bias."""
MOVED = 0.03
"""Maximum share of its scale by which nudged inputs may move a row that counts.

Where one value of a row outweighs all others, its gradient is less than a roundoff of the terms that cancel in it. The
remainder is zero in one order of summation and noise in another. One row in twenty of a softmax's timed content is such
a row, and a correct kernel was refused for it."""


class Bias(Check):
    """Errors must not grow with the values: catches factors, truncation and missing terms below the error bound."""

    name = "bias"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Regress errors on expected values in every row; the mean slope must be near zero or within chance.

        If it is not, or if rows differ so much that they could hide a bias, rows that nudged inputs move do not count.
        """
        worst = 0.0
        for number, output in enumerate(evidence.operator.results):
            got = evidence.outputs[number]
            if evidence.draw not in DRAWS or not got.is_floating_point() or got.numel() == 0:
                continue
            errors = RowErrors.to_average(evidence, number)
            trend = _Trend.of(evidence, errors)
            if trend.doubt > 1:
                trend = _Trend.of(evidence, errors, steady(errors, evidence.reference.sensitivity[number]))
            if trend.measure > 1:
                reason = (
                    f"output '{output.name}' is too {'large' if trend.gain > 0 else 'small'} by {abs(trend.gain):.2%} "
                    f"throughout ({evidence.shape.key}, {evidence.draw} inputs): look for a factor, a missing term, or "
                    "rounding by truncation, which tl.dot of float32 does unless input_precision is 'ieee' or 'tf32x3'"
                )
                return CheckFinding(trend.measure, Outcome.PRECISION, reason)
            worst = max(worst, trend.measure)
        return CheckFinding(worst)


@dataclass(frozen=True)
class _Trend:
    """The trend of an output's errors over some of its rows.

    Attributes:
        gain: Mean slope of errors over values.
        limit: Maximum slope that does not matter.
        spread: Standard deviation of the rows' slopes.
        chance: Maximum mean slope that rows with this spread have by chance.
    """

    gain: float
    limit: float
    spread: float
    chance: float

    @classmethod
    def of(cls, evidence: CheckEvidence, errors: RowErrors, rows: torch.Tensor | None = None) -> "_Trend":
        """Returns the trend of all rows or of some; zero if they are too few."""
        gains, limit = slopes(errors.error, errors.value, rows), gain_limit(evidence, errors, rows)
        if len(gains) < ROWS:
            return cls(0.0, limit, 0.0, 0.0)
        spread = float(gains.std())
        return cls(float(gains.mean()), limit, spread, DEVIATIONS * spread / len(gains) ** 0.5)

    @property
    def doubt(self) -> float:
        """The trend, or a spread that could hide one, over the limit; above 1 it needs a closer look."""
        return max(abs(self.gain), self.spread / SPREAD) / self.limit

    @property
    def measure(self) -> float:
        """The trend over its limit or chance; above 1 it is a bias."""
        return abs(self.gain) / max(self.limit, self.chance)


def gain_limit(evidence: CheckEvidence, errors: RowErrors, rows: torch.Tensor | None = None) -> float:
    """Return the maximum mean slope of an output's errors that does not matter.

    Over some of its rows the native reference's own gain is allowed too. Over all of them it is not: rows that hold
    only roundoff have a slope as well.
    """
    floor = _floor(evidence, errors.dtype)
    if rows is None:
        return floor
    return max(floor, NATIVE_GAINS * abs(float(slopes(errors.native, errors.value, rows).mean())))


def steady(errors: RowErrors, sensitivity: torch.Tensor) -> torch.Tensor:
    """Return which rows of an output stay nearly unchanged when inputs are nudged, (rows,) bool."""
    moved = moves_in_rows(sensitivity, len(errors.value))
    return (rms(moved) <= MOVED * rms(errors.value))[:, 0]


def _floor(evidence: CheckEvidence, dtype: torch.dtype) -> float:
    truncation = TF32.scale_rms if evidence.operator.precision.allow_tf32 else 0.0
    rounding = GAIN_ROUNDOFFS * torch.finfo(carrier(dtype)).eps / 2
    return max(truncation, rounding, 4 * SUM_ROUNDOFFS * summation_roundoff(evidence))


def slopes(errors: torch.Tensor, values: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Return the slope of errors over values in each row that has values, of all rows or some; zero is no bias."""
    power = rms(values)[:, 0].square() * values.shape[1]
    counted = power > 0 if rows is None else (power > 0) & rows
    return ((values * errors).sum(1) / power)[counted]
