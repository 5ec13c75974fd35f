"""Check: errors against float64 stay near those of the reference in the operator's own dtypes.

Results of few elements may be unlucky, or the reference lucky: fresh draws decide on them (`few_elements`). They decide
on rows in which the reference lost little by luck, too, if a draw has more of them than most draws.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from statistics import fmean

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding, Observation
from workers.checks.expectation import Expectation
from workers.checks.few_elements import POOLED, are_few, counts_losses, is_within_losses, pooled_ratio, ratio_to_losses
from workers.checks.location import at, cluster
from workers.checks.nearby import losses_nearby
from workers.checks.tolerance import (
    ErrorBounds,
    Leeway,
    RowErrors,
    bounds_nearby,
    bounds_without_sensitivity,
    is_half,
    leeway,
    leeway_of_single_elements,
    rms,
    widen_by_losses,
    widen_by_order,
    widen_by_sensitivity,
)
from workers.protocol import Outcome, Shape
from workers.reference import is_product

FRACTION = 1e-3
"""Maximum share of elements whose error exceeds half of their row's worst bound and a few roundoffs of their own value.
In short rows one in a hundred honest elements, rounded twice, does the former."""
LUCKY_ROWS = 0.02
"""Maximum share of rows, but at least one row, that may be beyond their bounds because the reference lost little there
by luck. In 330 draws of timed content, up to 14 of 1,024 rows of a right attention were. With one bit less in its
scaled queries, it was 31 to 128 rows in 30 draws. A draw with more rows, up to `UNLUCKY` times as many, is a doubt."""
UNLUCKY = 3.0
ROWS_POOLED = 16
"""Fresh draws that decide such a doubt: the mean share of rows beyond may be `LUCKY_ROWS`, and no draw may have a row
that luck does not explain. A right attention had 0.2 of them in the mean of 150 draws, with one bit less 3.4."""
TYPICAL = 1 - 1e-6
"""Share of its row's root mean square from which an error is reported; less than 1, since all may be equal."""
COARSE_HALF, COARSE_SINGLE = 0.03, 0.004
"""Maximum error relative to the scale that counts as coarse arithmetic; a larger one is a wrong formula. Eight
roundoffs of bfloat16 for outputs narrower than float32, one for others."""
_ADVICE = {
    False: ": the formula holds, but some arithmetic is coarser than the contract's {0}; accumulate and keep "
    "intermediate values in it",
    True: ": either lanes beyond the end of a dimension count, or some arithmetic is coarser than the contract's {0}; "
    "mask the lanes with a value that changes nothing, and keep intermediate values in {0}",
}
# Advice on small errors, by whether blocks have lanes beyond the end of a dimension at the shape.
_PRODUCTS_ADVICE = (
    "; matrix units cut each sum: add long float32 products from parts up outside them, "
    "`acc += tl.dot(a, b, max_num_imprecise_acc=BLOCK_K)`"
)


class ErrorRatio(Check):
    """Root mean square error, worst element and their spread, row by row against the contract's bounds."""

    name = "error_ratio"
    pooled = POOLED

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Compare all float outputs with the reference in float64."""
        worst, doubt = 0.0, None
        for number in _float_outputs(evidence):
            finding = _examine_output(evidence, number)
            if finding.outcome is not None:
                if not finding.doubtful:
                    return finding
                doubt = doubt or finding
            worst = max(worst, finding.worst)
        return doubt or CheckFinding(worst)

    def draws_for(self, evidence: CheckEvidence) -> int:
        """Return more draws for few elements than for rows, of which each draw has many."""
        return self.pooled if are_few(evidence) else ROWS_POOLED

    def observe(self, evidence: CheckEvidence) -> Observation:
        """Return for each output what tells luck from coarse arithmetic; empty where nothing does.

        Of few elements, the error over what the reference loses nearby; of many, the share of rows beyond their bounds
        over the one that luck explains, and their errors over what the reference loses nearby.
        """
        return tuple(_observe_output(evidence, number) for number in range(len(evidence.outputs)))

    def decide(self, evidence: CheckEvidence, observed: Sequence[Observation]) -> CheckFinding:
        """Compare the errors of fresh draws with what the reference loses near them."""
        worst = 0.0
        for number, draws in enumerate(zip(*observed, strict=True)):
            measure = _pooled_measure(evidence, number, draws)
            if measure > 1:
                return CheckFinding(measure, Outcome.PRECISION, _explain_pooled(evidence, number, measure, len(draws)))
            worst = max(worst, measure)
        return CheckFinding(worst)


@dataclass(frozen=True)
class _Weighed:
    """Errors over bounds, where 1 is the border: of rows, (rows, 1), and elements; and the elements near it."""

    rows: torch.Tensor
    elements: torch.Tensor
    near: torch.Tensor

    @cached_property
    def measure(self) -> float:
        """The larger of the two; a little over 1 if only too many elements are near the border."""
        return max(float(self.rows.max()), float(self.elements.max()), 1.0 + FRACTION if self.is_crowded else 0.0)

    @property
    def is_crowded(self) -> bool:
        """True if more elements are near the border than chance explains."""
        return self._crowd > max(1.0, FRACTION * self.near.numel())

    def forgiving(self, leeway: Leeway) -> "_Weighed":
        """Return the same with the leeway for few rows and elements, if they are few."""
        if not self.few:
            return self
        return replace(self, rows=self.rows / leeway.rms, elements=self.elements / leeway.worst)

    @property
    def unlucky(self) -> float:
        """Number of rows beyond their bounds, over the one that luck explains."""
        beyond = (self.rows > 1) | (self.elements > 1).any(1, keepdim=True)
        return int(beyond.sum()) / _lucky_rows(beyond)

    @cached_property
    def few(self) -> bool:
        """True if few elements are near the border and few rows beyond it."""
        return self._crowd <= FRACTION * self.near.numel() and int((self.rows > 1).sum()) <= FRACTION * len(self.rows)

    @cached_property
    def _crowd(self) -> int:
        return int(self.near.sum())


def _float_outputs(evidence: CheckEvidence) -> list[int]:
    """Return the numbers of the float outputs that have elements."""
    return [number for number, got in enumerate(evidence.outputs) if got.is_floating_point() and got.numel()]


class _ExaminedOutput:
    """One float output: its errors, and bounds that are widened only as far as it changes a verdict.

    Attributes:
        errors: The errors.
        bounds: Bounds, wide enough for the errors if any are.
        weighed: Errors over these bounds.
        measure: The same as a number; over bounds by luck, if few enough rows are beyond the others.
    """

    def __init__(self, evidence: CheckEvidence, number: int) -> None:
        self._evidence = evidence
        self._number = number
        self.errors = RowErrors.of(evidence, number)
        for bounds, weighed, tries_luck in self._widened():
            self.bounds, self.weighed, self.measure = bounds, weighed, weighed.measure
            if self.measure > 1 and tries_luck and self._has_lucky_rows(1.0):
                self.measure = min(self.measure, self.by_luck.measure)
            if self.measure <= 1:
                break

    @property
    def is_coarse(self) -> bool:
        """True if no row's error is larger than that of low-precision arithmetic."""
        return _is_coarse(self.errors, self.bounds)

    @property
    def may_be_luck(self) -> bool:
        """True if fresh draws may pass it: it has few elements, or a few rows too many beyond their bounds."""
        if are_few(self._evidence):
            return counts_losses(self._evidence, self._number) and is_within_losses(self._evidence, self._number)
        return self._has_lucky_rows(UNLUCKY) and self.by_luck.measure <= 1

    @property
    def by_luck(self) -> _Weighed:
        """Errors over bounds that the reference meets without luck."""
        return _weigh(self.errors, self.bounds.or_wider(self._bounds_by_luck))

    def _has_lucky_rows(self, most: float) -> bool:
        """Return True if luck may explain all rows beyond bounds: at most so many times as many as it usually does."""
        dtype = self.errors.dtype
        return _may_have_lucky_rows(dtype) and self.weighed.unlucky <= most and (is_half(dtype) or self.is_coarse)

    @cached_property
    def _bounds_by_luck(self) -> ErrorBounds:
        if is_half(self.errors.dtype):
            return widen_by_losses(self.bounds, losses_nearby(self._evidence.reference, self._number))
        return reduce(ErrorBounds.or_wider, bounds_nearby(self._evidence, self._number), self.bounds)

    def _widened(self) -> Iterator[tuple[ErrorBounds, _Weighed, bool]]:
        """Yield bounds, errors over them, and True if luck is tried on these, as long as it may change a verdict.

        What costs few evaluations and decides much comes first: of narrow outputs that is luck, since no other bounds
        change rows in which one value outweighs all others.
        """
        reference, number, errors = self._evidence.reference, self._number, self.errors
        half = is_half(errors.dtype)
        bounds = bounds_without_sensitivity(self._evidence, errors)
        yield bounds, _weigh(errors, bounds), half
        bounds, weighed = _weigh_widened(errors, bounds, reference.sensitivity[number], reference, number)
        yield bounds, weighed, half
        if _may_be_order(errors, bounds):
            bounds = widen_by_order(bounds, reference.sequential_loss[number])
            weighed = _weigh(errors, bounds)
            yield bounds, weighed, True
        # By chance the first nudges hardly move a few of many values.
        if not weighed.is_crowded or _is_coarse(errors, bounds):
            sensitivity = reference.full_sensitivity[number]
            yield *_weigh_widened(errors, bounds, sensitivity, reference, number), True


def _examine_output(evidence: CheckEvidence, number: int) -> CheckFinding:
    output = _ExaminedOutput(evidence, number)
    errors, weighed = output.errors, output.weighed
    if output.measure <= 1:
        return CheckFinding(output.measure)
    outcome = Outcome.PRECISION if output.is_coarse else Outcome.WRONG_RESULT
    wrong = weighed.near | (weighed.rows > 1) & (errors.error.abs() >= TYPICAL * rms(errors.error))
    reason = _explain(evidence, number, weighed.elements, wrong, outcome)
    return CheckFinding(output.measure, outcome, reason, output.may_be_luck)


def _can_be_luck(evidence: CheckEvidence, number: int) -> bool:
    """Return True if luck is told from coarse arithmetic in an output."""
    if are_few(evidence):
        return counts_losses(evidence, number)
    output = evidence.outputs[number]
    return output.is_floating_point() and output.numel() > 0 and _may_have_lucky_rows(output.dtype)


def _may_have_lucky_rows(dtype: torch.dtype) -> bool:
    """Return True if rows of a dtype may be beyond bounds by luck: errors of float8 leave the last rounding out."""
    return dtype.itemsize > 1


def _observe_output(evidence: CheckEvidence, number: int) -> tuple[float, ...]:
    if not _can_be_luck(evidence, number):
        return ()
    return ratio_to_losses(evidence, number) if are_few(evidence) else _observe_rows(evidence, number)


def _observe_rows(evidence: CheckEvidence, number: int) -> tuple[float, float]:
    """Return the number of rows beyond bounds over the one that luck explains, and errors over bounds by luck."""
    output = _ExaminedOutput(evidence, number)
    if output.weighed.measure > 1:
        return output.weighed.unlucky, output.by_luck.measure
    return 0.0, output.weighed.measure


def _pooled_measure(evidence: CheckEvidence, number: int, draws: Sequence[tuple[float, ...]]) -> float:
    """Return an output's measure over fresh draws, where 1 is the border; 0 where nothing is measured."""
    if not _can_be_luck(evidence, number):
        return 0.0
    if are_few(evidence):
        return pooled_ratio(draws)
    return max(fmean(unlucky for unlucky, _ in draws), *(measure for _, measure in draws))


def _is_coarse(errors: RowErrors, bounds: ErrorBounds) -> bool:
    """Return True if no row's error is larger than that of low-precision arithmetic."""
    limit = COARSE_HALF if errors.dtype.itemsize < 4 else COARSE_SINGLE
    return _are_within(errors, bounds, limit * rms(errors.value))


def _may_be_order(errors: RowErrors, bounds: ErrorBounds) -> bool:
    """Return True if another order of sums may explain all errors: a row of which nothing is left has those of others.

    Other orders are only tried then, since they cost evaluations.
    """
    scale = rms(errors.value)
    return _are_within(errors, bounds, COARSE_HALF * scale.clamp(min=scale.median()))


def _are_within(errors: RowErrors, bounds: ErrorBounds, limits: torch.Tensor) -> bool:
    """Return True if every row errs by at most its limit, or its bound if that is larger."""
    return bool((rms(errors.error) <= torch.maximum(limits, bounds.rms)).all())


def _weigh(errors: RowErrors, bounds: ErrorBounds) -> _Weighed:
    missed, row_errors = errors.error.abs(), rms(errors.error)
    near = missed > torch.maximum(bounds.worst / 2, bounds.own * errors.value.abs())
    rows = row_errors / bounds.rms
    if 0 < int((rows > 1).sum()) <= UNLUCKY * _lucky_rows(rows):
        rows = row_errors / torch.maximum(bounds.rms, bounds.own * rms(errors.value))
    return _Weighed(rows, missed / bounds.elements(errors.value), near)


def _lucky_rows(rows: torch.Tensor) -> float:
    """Return the maximum number of rows that may be beyond their bounds by luck."""
    return max(1.0, LUCKY_ROWS * len(rows))


def _weigh_widened(
    errors: RowErrors, bounds: ErrorBounds, sensitivity: torch.Tensor, reference: Expectation, number: int
) -> tuple[ErrorBounds, _Weighed]:
    """Return bounds widened by the movement under nudged inputs, and errors over them, with leeway if needed."""
    bounds = widen_by_sensitivity(bounds, sensitivity)
    weighed = _weigh(errors, bounds)
    if weighed.measure > 1:
        weighed = weighed.forgiving(leeway(bounds, reference.coarse_sensitivity[number]))
    if weighed.measure > 1:
        weighed = weighed.forgiving(leeway_of_single_elements(bounds, sensitivity))
    return bounds, weighed


def _is_padded(shape: Shape) -> bool:
    """Return True if some block covers lanes beyond the end of a dimension, whatever its size."""
    return any(size & (size - 1) for size in shape.dims.values())


def _explain(evidence: CheckEvidence, number: int, ratio: torch.Tensor, wrong: torch.Tensor, outcome: Outcome) -> str:
    got, expected = evidence.outputs[number].flatten(), evidence.reference.expected[number].flatten()
    place = int(ratio.argmax())
    shape = evidence.outputs[number].shape
    advice = _advice(evidence) if outcome is Outcome.PRECISION else ""
    return (
        f"output '{evidence.operator.results[number].name}' is {got[place].item():.6g} at {at(place, shape)}, expected "
        f"{expected[place].item():.6g} ({cluster(wrong.reshape(shape))}; {evidence.shape.key}, {evidence.draw} inputs)"
        f"{advice}"
    )


def _explain_pooled(evidence: CheckEvidence, number: int, measure: float, draws: int) -> str:
    return (
        f"output '{evidence.operator.results[number].name}' errs by {measure:.3g} times its limit over {draws} draws "
        f"({evidence.shape.key}, {evidence.draw} inputs){_advice(evidence)}"
    )


def _advice(evidence: CheckEvidence) -> str:
    said = _ADVICE[_is_padded(evidence.shape)].format(evidence.operator.precision.accumulate)
    is_single = any(tensor.dtype == torch.float32 for tensor in evidence.inputs)
    multiplies = is_single and any(map(is_product, evidence.reference.graph.nodes))
    return f"{said}{_PRODUCTS_ADVICE if multiplies else ''}"
