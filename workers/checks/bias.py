"""Check: results are not systematically too large or too small.

The statistic is the gain: the mean over rows of the slope of errors over expected values. If rows erred independently,
its standard error would be that of a mean of rows. But rows share errors: those of a batch's mean and variance, of a
norm over everything, of a filter that tf32x3 splits. Such an error is one error however many rows have it, and a single
draw cannot tell it from a bias: both move all rows alike. Over fresh draws it can be told: a shared rounding error has
another value in each draw, a bias does not.

So one draw only raises a doubt, and `POOLED` fresh draws decide it, once. Let m be the candidate's gains in them and n
the native reference's, of the rows that nudged inputs leave in place. An honest kernel has E(m) near 0, and errors as
large as the contract allows. It is refused if either holds:

1. |mean(m)| exceeds the limit and `POOLED_DEVIATIONS` standard errors of m. As m is independent from draw to draw,
   mean(m) over its standard error follows Student's t with `POOLED` - 1 degrees of freedom: probability 1e-9.
2. rms(m) exceeds the limit, `NATIVE_GAINS` times `POOLED_SPREAD` times rms(n), and `SPLIT_SHARE` of the movement of a
   row under nudged inputs, relative to its scale. This refuses errors of changing sign that are larger than rounding.
   The square of rms(m) over rms(n) follows F with `POOLED` and `POOLED` degrees of freedom, if m spreads as n does:
   probability 1e-9.

Refusal takes the doubt and the decision, so a case of an honest kernel is refused with a probability under 2e-9: that
of `DEVIATIONS` standard errors of a single draw with independent rows. Wrong kernels lose nothing by it: a constant
bias has 24 times the evidence, and a doubt is raised as easily as before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding, Observation
from workers.checks.summation import SUM_ROUNDOFFS
from workers.checks.tolerance import TF32, RowErrors, moves_in_rows, rms, summation_roundoff
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
POOLED = 24
"""Fresh draws that decide a doubt. With 16, a bias would have to be 3.3 standard deviations of shared errors, with 24
it takes 2; each costs a run of one shape."""
POOLED_DEVIATIONS = 9.86
"""Quantile of Student's t with 23 degrees of freedom that is exceeded on either side with a probability of 1e-9."""
POOLED_SPREAD = 4.04
"""Root of the quantile of F with 24 and 24 degrees of freedom that is exceeded with a probability of 1e-9."""
SPLIT_SHARE = 1 / 4
"""Share of the movement under nudged inputs that a shared error may have: a factor split into two TF32 parts, the
second of them cut off, loses up to 8 of the 32 roundoffs by which inputs are nudged."""
SMALLEST = torch.finfo(torch.float64).eps
"""Limit where no draw has enough rows for one: float64 itself errs by as much."""
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
    pooled = POOLED

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
                return _refusal(evidence, output.name, trend.gain, trend.measure)
            worst = max(worst, trend.measure)
        return CheckFinding(worst)

    def observe(self, evidence: CheckEvidence) -> Observation:
        """Return for each output its gain, the native reference's, the movement under nudged inputs, and the limit.

        All zero if too few rows stay in place.
        """
        return tuple(_observed(evidence, number) for number in range(len(evidence.outputs)))

    def decide(self, evidence: CheckEvidence, observed: Sequence[Observation]) -> CheckFinding:
        """Compare the gains of fresh draws with their scatter, and with errors of honest arithmetic."""
        worst = 0.0
        for output, draws in zip(evidence.operator.results, zip(*observed, strict=True), strict=True):
            gain, native, moved, limit = torch.tensor(draws, dtype=torch.float64).T
            mean = float(gain.mean())
            error = POOLED_DEVIATIONS * float(gain.std()) / len(gain) ** 0.5
            size = max(NATIVE_GAINS * POOLED_SPREAD * _size(native), SPLIT_SHARE * _size(moved))
            least = max(float(limit.max()), SMALLEST)
            measure = max(abs(mean) / max(least, error), _size(gain) / max(least, size))
            if measure > 1:
                return _refusal(evidence, output.name, mean, measure)
            worst = max(worst, measure)
        return CheckFinding(worst)


def _refusal(evidence: CheckEvidence, output: str, gain: float, measure: float) -> CheckFinding:
    reason = (
        f"output '{output}' is too {'large' if gain > 0 else 'small'} by {abs(gain):.2%} throughout "
        f"({evidence.shape.key}, {evidence.draw} inputs): look for a factor, a missing term, or rounding by "
        "truncation, which tl.dot of float32 does unless input_precision is 'ieee' or 'tf32x3'"
    )
    return CheckFinding(measure, Outcome.PRECISION, reason, doubtful=True)


def _observed(evidence: CheckEvidence, number: int) -> tuple[float, ...]:
    errors = RowErrors.to_average(evidence, number)
    sensitivity = evidence.reference.sensitivity[number]
    rows = steady(errors, sensitivity)
    gains = slopes(errors.error, errors.value, rows)
    if len(gains) < ROWS:
        return (0.0, 0.0, 0.0, 0.0)
    scales = rms(errors.value)[:, 0]
    moved = rms(moves_in_rows(sensitivity, len(errors.value)))[:, 0]
    share = (moved / scales)[rows & (scales > 0)].mean()
    native = slopes(errors.native, errors.value, rows).mean()
    return (float(gains.mean()), float(native), float(share), _floor(evidence, errors.dtype))


def _size(figures: torch.Tensor) -> float:
    """Return the root mean square of figures."""
    return float(figures.square().mean().sqrt())


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
    truncation = TF32.scale_rms if evidence.reference.allows_tf32 else 0.0
    rounding = GAIN_ROUNDOFFS * torch.finfo(carrier(dtype)).eps / 2
    return max(truncation, rounding, 4 * SUM_ROUNDOFFS * summation_roundoff(evidence))


def slopes(errors: torch.Tensor, values: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Return the slope of errors over values in each row that has values, of all rows or some; zero is no bias."""
    power = rms(values)[:, 0].square() * values.shape[1]
    counted = power > 0 if rows is None else (power > 0) & rows
    return ((values * errors).sum(1) / power)[counted]
