"""Answers: expected results and bounds of timed outputs, computed once per content and kept on the card.

An answer holds the reference in float64, or in float32 for outputs so narrow that it makes no difference. It holds the
bounds of `workers.checks` in a form that one pass over an output can use.
"""

from dataclasses import dataclass
from math import inf, nan

import torch

from workers.checks import CheckEvidence
from workers.checks.bias import DRAWS as VARIED
from workers.checks.bias import gain_limit, steady
from workers.checks.tolerance import (
    ErrorBounds,
    RowErrors,
    bounds_without_sensitivity,
    leeway,
    rms,
    widen_by_sensitivity,
)
from workers.float8 import is_float8, readable


@dataclass(frozen=True)
class ExactAnswer:
    """The answer for integers and booleans: expected values in the output's dtype and shape."""

    values: torch.Tensor

    @property
    def kind(self) -> tuple[torch.dtype, torch.Size]:
        """Dtype and shape of the output."""
        return self.values.dtype, self.values.shape

    @property
    def bytes(self) -> int:
        """Size on the card."""
        return self.values.nbytes


@dataclass(frozen=True)
class FloatAnswer:
    """The answer for floats, in rows that share a scale.

    Attributes:
        kind: Dtype and shape of the output.
        values: (rows, columns), expected values; NaN and infinities where the operator's own dtypes have them.
        inverse: (rows,), one over the maximum error of a row's worst element; in the dtype of `values`.
        squares: (rows,) float32, maximum sum of the squared errors of a row, times `inverse` squared.
        gains: (rows,) float32, factors that turn a row's sum of errors x values, both times `inverse`, into a slope;
            zero if the row has no scale or no part in the bias check, as on draws that the check skips.
        own: Share of its own value that any element may be off.
        leeway: (2, rows) float32, factors on the root of `squares` and on the maximum error of an element, which apply
            if few elements are off.
        gain_limit: Maximum mean slope that does not matter.
        widened: True if bounds allow the movement under nudged inputs, and rows that move have no part in the bias
            check.
    """

    kind: tuple[torch.dtype, torch.Size]
    values: torch.Tensor
    inverse: torch.Tensor
    squares: torch.Tensor
    gains: torch.Tensor
    own: float
    leeway: torch.Tensor
    gain_limit: float
    widened: bool

    @property
    def bytes(self) -> int:
        """Size on the card."""
        return sum(each.nbytes for each in (self.values, self.inverse, self.squares, self.gains, self.leeway))


Answer = ExactAnswer | FloatAnswer


def derive(evidence: CheckEvidence, *, widened: bool) -> tuple[Answer, ...]:
    """Compute the answers for all outputs from evidence of a perfect kernel, whose outputs are the native reference's.

    If `widened`, also allow the movement of results under nudged inputs, as `workers.checks` do in doubt.
    """
    return tuple(_derive(evidence, number, widened) for number in range(len(evidence.outputs)))


def _derive(evidence: CheckEvidence, number: int, widened: bool) -> Answer:
    native = evidence.reference.native[number]
    if not native.is_floating_point() or not native.numel():
        return ExactAnswer(native)
    if widened:  # Computed while nothing else as large is in memory.
        _ = evidence.reference.sensitivity, evidence.reference.coarse_sensitivity
    errors = RowErrors.of(evidence, number)
    averaged = RowErrors.to_average(evidence, number) if is_float8(native.dtype) else errors
    bounds, rows = bounds_without_sensitivity(evidence, errors), None
    if widened:
        sensitivity = evidence.reference.sensitivity[number]
        bounds, rows = widen_by_sensitivity(bounds, sensitivity), steady(errors, sensitivity)
    kept = torch.float32 if native.dtype.itemsize < 4 else torch.float64
    squares = (bounds.rms / bounds.worst).square()[:, 0].mul(errors.value.shape[1]).float()
    gains, limit = _slopes(evidence, errors, bounds, rows).float(), gain_limit(evidence, averaged, rows)
    values = errors.value if errors.complete else None
    del errors, averaged  # They are as large as the values.
    if values is None:
        values = _as_native(evidence.reference.middle[number], native).reshape(len(squares), -1)
    return FloatAnswer(
        kind=(native.dtype, native.shape),
        values=values.to(kept),
        inverse=(1 / bounds.worst[:, 0]).to(kept),
        squares=squares,
        gains=gains,
        own=bounds.own,
        leeway=_leeway(evidence, number, bounds, widened),
        gain_limit=limit,
        widened=widened,
    )


def _as_native(middle: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Return values with NaN and infinities where the operator's own dtypes have them, float64."""
    values, narrow = middle.clone(), readable(native)
    values.masked_fill_(narrow.isnan(), nan)
    for end in (inf, -inf):
        values.masked_fill_(narrow == end, end)
    return values


def _leeway(evidence: CheckEvidence, number: int, bounds: ErrorBounds, widened: bool) -> torch.Tensor:
    if not widened:
        return torch.ones((2, len(bounds.worst)), device=bounds.worst.device)
    few = leeway(bounds, evidence.reference.coarse_sensitivity[number])
    return torch.stack([few.rms[:, 0], few.worst[:, 0]]).float()


def _slopes(evidence: CheckEvidence, errors: RowErrors, bounds: ErrorBounds, rows: torch.Tensor | None) -> torch.Tensor:
    power = (rms(errors.value) / bounds.worst).square()[:, 0] * errors.value.shape[1]
    if evidence.draw not in VARIED:
        return torch.zeros_like(power)
    counted = power > 0 if rows is None else (power > 0) & rows
    return torch.where(counted, 1 / power, 0.0)
