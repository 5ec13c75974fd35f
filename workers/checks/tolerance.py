"""Maximum errors of results against the reference in float64, by contract and conditioning."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import TypeAlias

import torch

from workers.checks.base import CheckEvidence
from workers.checks.expectation import NUDGE_ROUNDOFFS, Expectation
from workers.checks.nearby import a_unit_away
from workers.checks.summation import SUM_ROUNDOFFS, adds_up
from workers.float8 import beyond_rounding, carrier, is_float8, readable
from workers.products import is_finite


@dataclass(frozen=True)
class ErrorAllowance:
    """Maximum error of an output, by the kind of contract.

    Root mean square and worst element are bounded separately. Each bound is the largest of three multiples: of the
    native reference's own error, of the scale of the values, and of the inputs' sensitivity.

    Attributes:
        native_rms: Factor on the native reference's error.
        scale_rms: Factor on the scale.
        native_worst: Factor on the native reference's worst error.
        scale_worst: Factor on the scale.
    """

    native_rms: float
    scale_rms: float
    native_worst: float
    scale_worst: float


SINGLE = ErrorAllowance(3.0, 4.0, 8.0, 32.0)
"""Float32 and float64 outputs; `scale_*` in roundoffs. The constants of this file are calibrated: reference, compiled
reference and independent correct kernels pass, and the mutants of `tests/workers/checks` fail."""
HALF = ErrorAllowance(1.5, 2.0, 4.0, 8.0)
"""Narrower outputs with a float32 accumulator; `scale_*` in roundoffs, for float8 in those of the dtype before the last
rounding. Errors of float8 are what the last rounding does not explain. A factor rounded to the output's dtype, such as
the probabilities of attention, may cost a whole row one roundoff and the result another. With 1.5, rows of one large
score in a million were refused whose exponent is a fused multiply-add away from zero."""
TF32 = ErrorAllowance(1.5, 1.6e-3, 5.0, 1e-2)
"""Float32 outputs where TF32 is allowed and the reference spells products out, or has a recurrent layer, whose states
are factors at every step; `scale_*` as they are: matrix units cut operands after 10 bits, and products are too small by
7e-4 on average."""
PRODUCTS = ErrorAllowance(1.2, 4.0, 3.0, 32.0)
"""Float32 outputs of a reference whose products may be TF32. Errors are those from the middle between exact and cut
factors (`Expectation.middle`), so that exact and cut ones err alike, by half of what cutting costs; `native_*` count
that half. Nothing but products may be coarse: the scale counts as in `SINGLE`. A kernel that rounded its results to
bfloat16 passed before a sigmoid, where the scale alone allowed 1.6e-3."""
ROUNDED_RMS, ROUNDED_WORST = 2.2, 4.0
"""Factors on the error of the reference with factors rounded to TF32, which comes on top, as it is independent. In a
plain product the bound is 1.6 times the error of rounded factors, and bfloat16 exceeds it by half."""

SENSITIVITY_RMS, SENSITIVITY_WORST = 4.0, 16.0
"""Factors on the movement of the expected value under nudged inputs."""
SENSITIVITY_FEW = 4.0
"""Factor on the movement under inputs that are rounded once more, for few elements and rows. Of 16 million results of
attention a dozen are larger than four of their row. They lose a roundoff with a probability and another at the end.
With the roundoffs of `HALF` alone attention was refused on an H200 on timed content."""
UNDERFLOWS = 256.0
"""Error that any element may have, in smallest normal float32 values times the largest input. A factor that is flushed
to zero on the way, such as a weight of a softmax, removes its whole product."""
CANCELLED_ROUNDOFFS = 4.0
"""Error that any element may have if the output is as wide as the accumulator and inputs are narrower: roundoffs of the
accumulator, times the largest input or the largest result of a matrix product. A small difference of such large terms,
such as a loss near zero, keeps no more of either. The inputs' own rounding is thousands of times as large."""
STILL_WORST = 4.0
"""Factor on the movement of the median row under nudged inputs. Few elements may have this error in a row that does not
move at all because a clamp took it: its terms are as large as those of other rows. One of ten million such results lies
so near the border that rounding takes it across. A convolution with a clamp was refused because of 52 of 537 million on
an H200."""
OWN_ROUNDOFFS, OWN_SINGLE = 2.0, 6.0
"""Roundoffs of its own value that any element may be off: one unit in the last place, or a little more. Outputs as wide
as the accumulator show the units' own errors too: a quotient by `div.full.f32` is off by up to 2 units in the last
place (PTX ISA), which are up to 4 roundoffs, and its divisor and its own rounding by one each. Without them a row of
softmax with one large element was refused on an H200, twice in 66 published kernels. What a sum may lose in any order
comes on top: an element that is nearly all of its sum takes each of its roundings, and one warp that adds 1,024 terms
one after another loses 13 roundoffs."""
IN_A_ROW = 2**16
"""Maximum number of terms of several axes that a kernel adds one after another: programs and threads take parts of
longer sums, and their sums are few. Without it, a mean over 4096 rows of 32000 could be guessed from targets alone."""
NEARBY = 4
"""Number of nudged inputs whose bounds by contract count for few rows of a float32 output. They are nudged as far as
those of the sensitivity: where a function is nearly constant, as a hyperbolic tangent near one, a unit in the last
place leaves its rounding as it is, which may be nothing by luck."""
GROUP = 32
"""Minimum number of elements whose root mean square is a scale: with fewer, one cancellation can reduce it to zero."""


@dataclass(frozen=True)
class RowErrors:
    """Errors of one output in rows that share a scale, float64; NaN and infinities are replaced by zeros.

    Errors of float8 are what the last rounding does not explain. Half a unit in the last place is 6 % of a value: if
    bounds allowed it, small values could be zero and others lose a digit.

    Attributes:
        dtype: Dtype of the output.
        error: Errors of the candidate.
        native: Errors of the reference in the operator's own dtypes.
        value: Expected values; where products may be TF32, the middle that errors count from.
        rounded: Errors of factors rounded to TF32, where products may be TF32.
        complete: True if nothing was replaced.
    """

    dtype: torch.dtype
    error: torch.Tensor
    native: torch.Tensor
    value: torch.Tensor
    rounded: torch.Tensor | None = None
    complete: bool = field(kw_only=True)

    @classmethod
    def of(cls, evidence: CheckEvidence, number: int) -> "RowErrors":
        """Return the errors of an output, by its number."""
        return cls._of(evidence, number, _missed)

    @classmethod
    def to_average(cls, evidence: CheckEvidence, number: int) -> "RowErrors":
        """Return the same for averages: of float8 whole errors, unless an earlier roundoff explains them.

        The last rounding alone has a bias: there are more small values than large ones. And if inputs have few distinct
        values, as in rows far from zero, a roundoff moves many results at once across a border, or none.
        """
        return cls._of(evidence, number, _missed_on_average)

    @classmethod
    def _of(cls, evidence: CheckEvidence, number: int, missed: "_Missed") -> "RowErrors":
        expected, native = evidence.reference.middle[number], evidence.reference.native[number]
        got = evidence.outputs[number]
        error = missed(got, expected)
        natively = error if got is native else missed(native, expected)
        errors = [error, natively, expected]
        if evidence.reference.multiplies_tf32 and native.dtype == torch.float32:
            errors.append(evidence.reference.rounded[number] - evidence.reference.expected[number])
        rows = [values.reshape(-1, group_size(expected.shape)) for values in errors]
        complete = is_finite(native, expected, *([] if got is native else [got]))
        if not complete or not (errors[-1] is expected or is_finite(rows[-1])):
            usable = _finite(rows[0]).logical_and_(_finite(rows[2]))
            value = torch.where(usable, rows[2], 0.0)
            # The errors were made here. Copies of them, 16 GB each for an output of 8 GB, would not fit.
            made = [each.masked_fill_(~(usable & _finite(each)), 0.0) for each in (*rows[:2], *rows[3:])]
            rows = [*made[:2], value, *made[2:]]
        return cls(got.dtype, *rows, complete=complete)


def _finite(values: torch.Tensor) -> torch.Tensor:
    """Return which values are finite, without the copy that `isfinite` makes."""
    return (values > -inf).logical_and_(values < inf)


_Missed: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _missed(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    return beyond_rounding(got, expected) if is_float8(got.dtype) else got - expected


def _missed_on_average(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    error = readable(got) - expected
    if not is_float8(got.dtype):
        return error
    explained = beyond_rounding(got, expected).abs() <= OWN_ROUNDOFFS / 2 * _roundoff(got.dtype) * expected.abs()
    return error.masked_fill(explained, 0.0)


@dataclass(frozen=True)
class ErrorBounds:
    """Maximum errors of an output.

    Attributes:
        rms: Root mean square of each row, (rows, 1).
        worst: Any element of each row, (rows, 1).
        own: Share of its own value that any element may be off, if that is more; so may few rows as a whole.
    """

    rms: torch.Tensor
    worst: torch.Tensor
    own: float

    def elements(self, values: torch.Tensor) -> torch.Tensor:
        """Return the maximum error of every element, by the expected values in rows."""
        return torch.maximum(self.worst, self.own * values.abs())

    def or_wider(self, other: "ErrorBounds") -> "ErrorBounds":
        """Return the larger bound of both for each row."""
        return ErrorBounds(torch.maximum(self.rms, other.rms), torch.maximum(self.worst, other.worst), self.own)


@dataclass(frozen=True)
class Leeway:
    """Factors, 1 or more, on root mean square and worst bound of each row, (rows, 1), for few rows and elements."""

    rms: torch.Tensor
    worst: torch.Tensor


def bounds_without_sensitivity(evidence: CheckEvidence, errors: RowErrors) -> ErrorBounds:
    """Return the bounds by contract: any honest kernel meets them on inputs that are not ill-conditioned."""
    allowance, unit = _allowance(evidence, errors.dtype)
    sums = SUM_ROUNDOFFS * summation_roundoff(evidence)
    scale = rms(errors.value)
    native_rms, native_worst = (_robust(error, scale) for error in (rms(errors.native), _most(errors.native)))
    rms_bound, worst_bound = allowance.native_rms * native_rms, allowance.native_worst * native_worst
    if errors.rounded is not None:
        rms_bound = torch.hypot(rms_bound, ROUNDED_RMS * _robust(rms(errors.rounded), scale))
        worst_bound = torch.hypot(worst_bound, ROUNDED_WORST * _robust(_most(errors.rounded), scale))
    rms_bound = torch.maximum(rms_bound, max(allowance.scale_rms * unit, sums) * scale)
    worst_bound = torch.maximum(worst_bound, max(allowance.scale_worst * unit, 8 * sums) * scale)
    info = torch.finfo(carrier(errors.dtype))
    largest = _largest_input(evidence)
    flushed = UNDERFLOWS * torch.finfo(torch.float32).tiny * max(1.0, largest)
    cancelled = max(largest * torch.finfo(torch.float64).eps, _cancellation(evidence, errors.dtype, largest))
    least = max(info.smallest_normal * info.eps, flushed, cancelled)
    own = OWN_ROUNDOFFS * _roundoff(errors.dtype)
    if errors.dtype.itemsize >= 4:
        own = OWN_SINGLE * _roundoff(errors.dtype) + (sums if adds_up(evidence.reference.graph) else 0.0)
    return ErrorBounds(rms_bound.clamp(min=least), worst_bound.clamp(min=least), own)


def bounds_nearby(evidence: CheckEvidence, number: int) -> Iterator[ErrorBounds]:
    """Yield the bounds by contract at nudged inputs, by what the reference loses there; not by what the nudge moves."""
    step = NUDGE_ROUNDOFFS * float(torch.finfo(_accumulator(evidence)).eps / 2)
    for seed in range(NEARBY):
        inputs = a_unit_away(evidence.inputs, seed, step)
        reference = Expectation(evidence.operator, evidence.reference.graph, inputs, evidence.draw)
        there = replace(evidence, inputs=inputs, outputs=reference.native, reference=reference)
        yield bounds_without_sensitivity(there, RowErrors.of(there, number))


def widen_by_sensitivity(bounds: ErrorBounds, sensitivity: torch.Tensor) -> ErrorBounds:
    """Return bounds that also allow the movement of the result under nudged inputs."""
    return bounds.or_wider(_allowed(bounds, sensitivity, SENSITIVITY_RMS, SENSITIVITY_WORST))


def widen_by_order(bounds: ErrorBounds, sequential_loss: torch.Tensor) -> ErrorBounds:
    """Return bounds that also allow the loss of sums that are added one after another, as that of the reference."""
    return bounds.or_wider(_allowed(bounds, sequential_loss, SINGLE.native_rms, SINGLE.native_worst))


def widen_by_losses(bounds: ErrorBounds, losses: Iterable[torch.Tensor]) -> ErrorBounds:
    """Return bounds of a narrow output that also allow what the reference loses at inputs a roundoff away."""
    for lost in losses:
        bounds = bounds.or_wider(_allowed(bounds, lost, HALF.native_rms, HALF.native_worst))
    return bounds


def _allowed(bounds: ErrorBounds, movement: torch.Tensor, rms_factor: float, worst_factor: float) -> ErrorBounds:
    """Return bounds of the same rows by a movement of the result alone."""
    moved = moves_in_rows(movement, len(bounds.worst))
    return ErrorBounds(rms_factor * rms(moved), worst_factor * _most(moved), bounds.own)


def leeway(bounds: ErrorBounds, coarse_sensitivity: torch.Tensor) -> Leeway:
    """Return the leeway of few elements and rows: the movement of the result if inputs are rounded once more."""
    moved = moves_in_rows(coarse_sensitivity, len(bounds.worst))
    return _beyond(bounds, SENSITIVITY_FEW * rms(moved), SENSITIVITY_FEW * _most(moved))


def leeway_of_single_elements(bounds: ErrorBounds, sensitivity: torch.Tensor) -> Leeway:
    """Return the leeway of few rows of which a clamp took all elements or all but a few.

    One element may have the error of its row's worst alone: if no other moves, its share of the root mean square is
    all. In rows that do not move at all it may have the movement of the median row that moves.
    """
    moved = moves_in_rows(sensitivity, len(bounds.worst))
    most = _most(moved)
    moving = most[most > 0]
    still = torch.where(most > 0, 0.0, STILL_WORST * moving.median()) if moving.numel() else most
    return _beyond(bounds, torch.maximum(still, SENSITIVITY_WORST * most / sqrt(moved.shape[1])), still)


def _beyond(bounds: ErrorBounds, row_rms: torch.Tensor, row_worst: torch.Tensor) -> Leeway:
    return Leeway((row_rms / bounds.rms).clamp(min=1.0), (row_worst / bounds.worst).clamp(min=1.0))


def moves_in_rows(sensitivity: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the movement of values, (rows, columns); zero where it is NaN or infinite. A copy only if any is."""
    moved = sensitivity if is_finite(sensitivity) else sensitivity.nan_to_num(0.0, 0.0, 0.0)
    return moved.reshape(rows, -1)


def group_size(shape: torch.Size) -> int:
    """Return the number of elements that share a scale: the last axis, or as many last axes as make a group."""
    size = 1
    for extent in reversed(shape):
        size *= extent
        if size >= GROUP:
            break
    return size


def rms(rows: torch.Tensor) -> torch.Tensor:
    """Return the root mean square of each row, (rows, 1); in one pass."""
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return norms / sqrt(rows.shape[1])


def is_half(dtype: torch.dtype) -> bool:
    """Return True if a dtype is float16 or bfloat16."""
    return dtype.is_floating_point and dtype.itemsize == 2


def _allowance(evidence: CheckEvidence, dtype: torch.dtype) -> tuple[ErrorAllowance, float]:
    if dtype.itemsize < 4:
        return HALF, _roundoff(dtype)
    if dtype == torch.float32 and evidence.reference.multiplies_tf32:
        return PRODUCTS, _roundoff(dtype)
    if dtype == torch.float32 and evidence.reference.allows_tf32:
        return TF32, 1.0
    return SINGLE, _roundoff(dtype)


def _roundoff(dtype: torch.dtype) -> float:
    """Return the relative error of rounding results to a dtype; for float8, of the rounding before the last one."""
    return float(torch.finfo(carrier(dtype)).eps / 2)


def summation_roundoff(evidence: CheckEvidence) -> float:
    """Return the loss of summing in another order, relative to the sum, up to a factor near 1.

    The number of summands is not known. It is at most the longest axis, or the elements reduced to one output element,
    as far as those are added one after another.
    """
    accumulator = _accumulator(evidence)
    elements = sum(tensor.numel() for tensor in evidence.inputs)
    results = max(1, max(tensor.numel() for tensor in evidence.outputs))
    longest = max((size for tensor in evidence.inputs for size in tensor.shape), default=1)
    return float(torch.finfo(accumulator).eps / 2 * max(longest, min(elements / results, IN_A_ROW)) ** 0.5)


def _cancellation(evidence: CheckEvidence, dtype: torch.dtype, largest: float) -> float:
    """Return the loss of terms as large as the largest input, or as products of inputs, in an output of a dtype."""
    accumulator = _accumulator(evidence)
    widest = max((tensor.dtype.itemsize for tensor in evidence.inputs if tensor.is_floating_point()), default=8)
    narrowed = widest < accumulator.itemsize <= dtype.itemsize
    if not narrowed:
        return 0.0
    return CANCELLED_ROUNDOFFS * torch.finfo(accumulator).eps / 2 * max(largest, evidence.reference.largest_product)


def _accumulator(evidence: CheckEvidence) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, evidence.operator.precision.accumulate)
    return dtype


def _largest_input(evidence: CheckEvidence) -> float:
    """Return the largest finite magnitude among float inputs: times a roundoff of float64, cancellation may lose it."""
    floats = (readable(tensor) for tensor in evidence.inputs if tensor.is_floating_point() and tensor.numel())
    return max(map(_largest, floats), default=0.0)


def _largest(tensor: torch.Tensor) -> float:
    ends = torch.stack(torch.aminmax(tensor)).abs().amax().double()
    return float(ends if ends.isfinite() else tensor.nan_to_num(0.0, 0.0, 0.0).abs().amax().double())


def _most(rows: torch.Tensor) -> torch.Tensor:
    most: torch.Tensor = torch.linalg.vector_norm(rows, inf, dim=1, keepdim=True)
    return most


def _robust(error: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the native error of each row, but at least the median row's relative error: a row can be lucky."""
    relative = error / scale.clamp(min=torch.finfo(torch.float64).tiny)
    return torch.maximum(error, relative.median() * scale)
