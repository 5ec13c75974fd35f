"""Check: results are not all a little too large or too small."""

from dataclasses import dataclass

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.tolerance import SUM_ROUNDOFFS, TF32, RowErrors, moves_in_rows, rms, summation_roundoff
from workers.float8 import carrier
from workers.protocol import Outcome

DRAWS = ("normal", "heavy", "shifted", "timed")
"""Draws whose values differ enough for rounding errors to be independent of the values."""
ROWS = 16
"""Fewest rows to judge by: errors of one row may share a cause, such as a rounded probability, without being biased."""
DEVIATIONS = 6.0
"""Standard errors by which the mean row must be off."""
GAIN_ROUNDOFFS = 1 / 8
"""Common factor, in roundoffs of the output, or of what a float8 is rounded from, below which a bias does not matter:
0.05% for float8 and bfloat16."""
NATIVE_GAINS = 3.0
"""Times the native reference's own gain."""
SPREAD = 8.0
"""Times the limit of the mean by which rows may differ from each other (standard deviation): a roundoff, as a rule.
What differs more is no rounding, and could hide a bias."""
MOVED = 0.03
"""Rows that nudged inputs move by more than this share of their scale say nothing: where one value of a row outweighs
all others, its gradient is less than a roundoff of the terms that cancel in it, and what is left of it is zero in one
order of summation and noise in another. One row in twenty is such in timed content of a softmax, and a correct kernel
was refused."""


class Bias(Check):
    """Errors do not grow with the values: catches factors, truncation and missing terms below the error bound."""

    name = "bias"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Regress errors on expected values in every row; the mean slope must be near zero, or by chance.

        Where it is not, or rows differ so much that they could hide it, those that nudged inputs move do not count.
        """
        worst = 0.0
        for number, output in enumerate(evidence.operator.results):
            got = evidence.outputs[number]
            if evidence.draw not in DRAWS or not got.is_floating_point() or got.numel() == 0:
                continue
            errors = RowErrors.to_average(evidence, number)
            lean = _Lean.of(evidence, errors)
            if lean.doubt > 1:
                lean = _Lean.of(evidence, errors, steady(errors, evidence.reference.sensitivity[number]))
            if lean.measure > 1:
                reason = (
                    f"output '{output.name}' is too {'large' if lean.gain > 0 else 'small'} by {abs(lean.gain):.2%} "
                    f"throughout ({evidence.shape.key}, {evidence.draw} inputs): look for a factor, a missing term, or "
                    "rounding by truncation, which tl.dot of float32 does unless input_precision is 'ieee' or 'tf32x3'"
                )
                return CheckFinding(lean.measure, Outcome.PRECISION, reason)
            worst = max(worst, lean.measure)
        return CheckFinding(worst)


@dataclass(frozen=True)
class _Lean:
    """Which way the errors of an output lean over some of its rows.

    Attributes:
        gain: Mean slope of errors over values.
        limit: Slope up to which a bias is nobody's concern.
        spread: Standard deviation of the rows' slopes.
        chance: Mean slope that rows which differ so much may come to without any bias.
    """

    gain: float
    limit: float
    spread: float
    chance: float

    @classmethod
    def of(cls, evidence: CheckEvidence, errors: RowErrors, rows: torch.Tensor | None = None) -> "_Lean":
        """The lean of all rows or some; nothing where they are too few to say."""
        gains, limit = slopes(errors.error, errors.value, rows), gain_limit(evidence, errors, rows)
        if len(gains) < ROWS:
            return cls(0.0, limit, 0.0, 0.0)
        spread = float(gains.std())
        return cls(float(gains.mean()), limit, spread, DEVIATIONS * spread / len(gains) ** 0.5)

    @property
    def doubt(self) -> float:
        """How near it is to a bias, or to rows that differ so much that they could hide one."""
        return max(abs(self.gain), self.spread / SPREAD) / self.limit

    @property
    def measure(self) -> float:
        """How near it is to a bias: beyond 1 it is one."""
        return abs(self.gain) / max(self.limit, self.chance)


def gain_limit(evidence: CheckEvidence, errors: RowErrors, rows: torch.Tensor | None = None) -> float:
    """Mean slope up to which the bias of an output, by its errors, is nobody's concern.

    Over some of its rows the native reference's own gain is allowed for. Over all of them it is not: those of which
    only roundoff is left lean there as well.
    """
    floor = _floor(evidence, errors.dtype)
    if rows is None:
        return floor
    return max(floor, NATIVE_GAINS * abs(float(slopes(errors.native, errors.value, rows).mean())))


def steady(errors: RowErrors, sensitivity: torch.Tensor) -> torch.Tensor:
    """Which rows of an output keep nearly where they are when inputs are nudged, (rows,) bool."""
    moved = moves_in_rows(sensitivity, len(errors.value))
    return (rms(moved) <= MOVED * rms(errors.value))[:, 0]


def _floor(evidence: CheckEvidence, dtype: torch.dtype) -> float:
    if dtype == torch.float32 and evidence.operator.precision.allow_tf32:
        return TF32.scale_rms
    return max(GAIN_ROUNDOFFS * torch.finfo(carrier(dtype)).eps / 2, 4 * SUM_ROUNDOFFS * summation_roundoff(evidence))


def slopes(errors: torch.Tensor, values: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Slope of errors over values in each row that has any, of some of the rows; zero is no bias."""
    power = rms(values)[:, 0].square() * values.shape[1]
    counted = power > 0 if rows is None else (power > 0) & rows
    return ((values * errors).sum(1) / power)[counted]
