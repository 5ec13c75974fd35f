"""Equality: decides if a mutant that passes all checks is wrong at all.

A mutation may have no effect. Swallowing infinities changes nothing where there are none, and a change in a
coefficient's third digit is lost when results are rounded to bfloat16. Such mutants are recognised here, by float64,
the dtypes and the errors that right answers have, independently of the checks and their tolerances.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from workers.checks.bias import DRAWS as VARIED
from workers.checks.bias import slopes
from workers.checks.expectation import NUDGE_ROUNDOFFS
from workers.checks.summation import SUM_ROUNDOFFS
from workers.checks.tolerance import group_size, rms, summation_roundoff
from workers.float8 import carrier, readable
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase, Tensors
from workers.mutation_testing.mutants.boundaries import last_rounding
from workers.protocol import Graph
from workers.reference import evaluate

EQUAL = 1e-9
"""Relative difference in float64 that counts as equal: another order of summation, with room for cancellation."""
CANCELLED = 1e-6
"""Share of the loss allowed to float32 arithmetic that counts as equal in float64 too. Where all terms cancel, the rest
is noise, and the scale of the row is no measure."""
ROUNDOFFS = 1.0
"""Maximum error before the last rounding, in units of the error that a right answer may have in each row: one roundoff
of the output, the loss of its sums, or the error of any honest answer to the same inputs, whichever is largest. For
float8 it is the roundoff of the dtype before, because rounding to float8 would hide too much. It is the root mean
square over all rows, because the scale of a few is almost zero."""
SYSTEMATIC = 1 / 8
"""Maximum average bias of the rows of a case, in roundoffs, if neither the loss of sums nor the bias of honest answers
is larger; only for draws whose values differ enough to show one."""
ROWS = 16
"""Minimum number of rows for an average."""
FLUSHED = torch.finfo(torch.float32).tiny
"""Scale below which results may be flushed to zero."""
TF32_ROUNDOFF = 2.0**-11
"""Roundoff of float32 results where TF32 may replace float32."""


def is_identical(outputs: Tensors, case: MutationCase) -> bool:
    """Return True if outputs equal the reference in the operator's own dtypes, wherever it decides."""
    native, undecided = case.reference.native, case.reference.undecided
    return all(
        bool(((got == right) | (got.isnan() & right.isnan()) | open_).all())
        for got, right, open_ in zip(outputs, native, undecided, strict=True)
    )


def is_equal(graph: Graph, case: MutationCase) -> bool:
    """Return True if a mutant computes the same as the reference in float64."""
    misses = _misses(case, evaluate(graph, case.inputs, double=True))
    if misses is None:
        return False
    for miss, moved in zip(misses, case.reference.sensitivity, strict=True):
        noise = CANCELLED * rms(moved.nan_to_num(0.0, 0.0, 0.0).reshape(miss.errors.shape))
        if not bool((miss.errors.abs() <= torch.maximum(EQUAL * miss.scales, noise)).all()):
            return False
    return True


@dataclass(frozen=True)
class HonestErrors:
    """The errors of right answers to one case, for one output.

    Attributes:
        rows: Largest root mean square error of each row, (rows,) float64; at least the movement of the results if
            inputs move by one roundoff of the accumulator.
        gain: Largest average bias of the rows.
    """

    rows: torch.Tensor
    gain: float

    @classmethod
    def of(cls, case: MutationCase, answers: Iterable[Tensors]) -> "tuple[HonestErrors, ...]":
        """Measure right answers in the operator's own dtypes. Those whose NaN and infinities differ do not count."""
        measured = [found for answer in answers if (found := _misses(case, answer, overflows=True)) is not None]
        errors = []
        for misses, moved in zip(zip(*measured, strict=True), case.reference.sensitivity, strict=False):
            nudged = rms(moved.nan_to_num(0.0, 0.0, 0.0).reshape(misses[0].errors.shape)) / NUDGE_ROUNDOFFS
            rows = torch.cat([nudged, *(rms(miss.errors) for miss in misses)], dim=1).amax(1)
            errors.append(cls(rows, max(miss.gain for miss in misses)))
        return tuple(errors)


def are_rounded_away(
    found: Iterable[tuple[TypedGraph, MutationCase, tuple[HonestErrors, ...]]], *, rounds: bool
) -> bool:
    """Return True if values, before they are rounded to the outputs' dtypes, err no more than right answers may.

    They are compared in float64. If NaN and infinities differ there, they are compared in the operator's own dtypes:
    float64 represents values that overflow in float32, where an infinity and the largest number are then the same.

    Args:
        found: A mutant at a shape, with a case and the errors of right answers to it, by output.
        rounds: True if the mutant equals the reference in exact arithmetic. Otherwise its bias must not exceed
            `SYSTEMATIC`.
    """
    rows = [torch.zeros(1, dtype=torch.float64)]
    doubles = (False,) if rounds else (True, False)
    for mutant, case, honest in found:
        evaluated = (evaluate(_unrounded(mutant), case.inputs, double=double) for double in doubles)
        misses = next(
            (missed for outputs in evaluated if (missed := _misses(case, outputs, overflows=True)) is not None), None
        )
        if misses is None or len(honest) != len(misses):
            return False
        sums = SUM_ROUNDOFFS * summation_roundoff(case.evidence(case.reference.native))
        for miss, native, right in zip(misses, case.reference.native, honest, strict=True):
            roundoff = _roundoff(case, native.dtype)
            if not roundoff and bool(miss.errors.any()):
                return False
            if not rounds and case.draw in VARIED and miss.gain > max(SYSTEMATIC * roundoff, sums, right.gain):
                return False
            rows.append(miss.over(right, max(roundoff, sums, EQUAL)))
    return bool(torch.cat(rows).square().mean().sqrt() <= ROUNDOFFS)


def _unrounded(mutant: TypedGraph) -> Graph:
    """Return the graph without the last rounding of its outputs."""
    nodes = list(mutant.graph.nodes)
    for number in range(len(mutant.graph.outputs)):
        index = last_rounding(mutant, number)
        if index is not None:
            nodes[index] = nodes[index].model_copy(update={"op": "aten.alias.default", "kwargs": {}})
    return mutant.graph.model_copy(update={"nodes": tuple(nodes)})


def _roundoff(case: MutationCase, dtype: torch.dtype) -> float:
    if not dtype.is_floating_point:
        return 0.0
    if dtype == torch.float32 and case.reference.allows_tf32:
        return TF32_ROUNDOFF
    return float(torch.finfo(carrier(dtype)).eps / 2)


@dataclass(frozen=True)
class _Miss:
    """Errors of one output in float64, in rows that share a scale."""

    errors: torch.Tensor
    values: torch.Tensor

    @property
    def scales(self) -> torch.Tensor:
        """Scales of the rows, (rows, 1)."""
        return rms(self.values)

    def over(self, honest: HonestErrors, unit: float) -> torch.Tensor:
        """Return the root mean square of every row, in units of the error that a right answer may have there."""
        allowed = torch.maximum(unit * self.scales[:, 0], honest.rows).clamp(min=unit * FLUSHED)
        return rms(self.errors)[:, 0] / allowed

    @property
    def gain(self) -> float:
        """Absolute average bias of the rows; zero if there are too few."""
        gains = slopes(self.errors, self.values)
        return abs(float(gains.mean())) if gains.numel() >= ROWS else 0.0


def _misses(case: MutationCase, results: Tensors, *, overflows: bool = False) -> list[_Miss] | None:
    """Return the errors of results where the reference decides; None if NaN and infinities differ.

    With `overflows`, either answer is right where the reference overflows in the operator's own dtypes alone. Integers
    that a rounding explains are no errors.
    """
    misses = []
    for number, (got, right) in enumerate(zip(results, case.reference.expected, strict=True)):
        special, undecided = ~right.isfinite(), case.reference.undecided[number]
        if overflows:
            undecided = undecided | (readable(case.reference.native[number]).isfinite() == special)
        same = torch.equal(readable(got).isfinite() | undecided, ~special | undecided)
        decided = special & ~undecided
        if not same or not torch.equal(got[decided].double().nan_to_num(), right[decided].double().nan_to_num()):
            return None
        usable = readable(got).isfinite() & ~special
        columns = max(1, group_size(right.shape))
        if not right.is_floating_point():
            usable &= (got == right) | case.reference.unexplained(number, got, got != right)
        errors, values = torch.where(usable, got.double() - right, 0.0), torch.where(usable, right.double(), 0.0)
        misses.append(_Miss(errors.reshape(-1, columns), values.reshape(-1, columns)))
    return misses
