"""Results of few elements, of a reference that rounds on the way: one draw may be right or wrong by luck.

Of a single element, the reference's own error is a bad measure. It rounds products, factors and sums, its error may be
near zero by chance, and where large terms cancel, it is no share of the result. A card refused 20 right kernels of a
mixture of experts by one draw, in which 1,024 terms added up to a small result. So an error that the reference has near
the inputs too raises a doubt alone, and `POOLED` fresh draws decide it, once.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import torch

from workers.checks.base import CheckEvidence
from workers.checks.nearby import own_losses, rounds_on_the_way
from workers.checks.tolerance import (
    GROUP,
    HALF,
    RowErrors,
    bounds_without_sensitivity,
    is_half,
    rms,
    widen_by_sensitivity,
)

POOLED = 64
"""Fresh draws that decide a doubt. If errors spread as those of the reference do, their root mean square over 64 draws
exceeds `LIMIT` with a probability of 5e-4 (chi-squared), and a doubt has to be raised before."""
LIMIT = 1.3
"""Maximum root mean square of errors over losses of the reference. At one element of the mixture of experts, it was
0.6 with hidden values in bfloat16, 0.9 with all that the reference rounds, and 1.5 with sums in bfloat16, in blocks of
64 terms. Eight nudges in place of many, and few values, add to the spread."""
LEAST_ROUNDOFFS = 0.5
"""Loss that counts at least, in roundoffs of the result: the last rounding of a reference may be exact."""


def counts_losses(evidence: CheckEvidence, number: int) -> bool:
    """Return True if an output is a narrow float, all have few elements, and the reference rounds on the way."""
    output = evidence.outputs[number]
    if not is_half(output.dtype) or not are_few(evidence) or not output.numel():
        return False
    return rounds_on_the_way(evidence.reference.graph, evidence.reference.inputs)


def are_few(evidence: CheckEvidence) -> bool:
    """Return True if every output has few elements."""
    return all(output.numel() < GROUP for output in evidence.outputs)


def is_within_losses(evidence: CheckEvidence, number: int) -> bool:
    """Return True if no element errs by more than elements may, by the largest loss of the reference nearby."""
    most = max(float(lost.abs().max()) for lost in own_losses(evidence.reference, number))
    return float(RowErrors.of(evidence, number).error.abs().max()) <= HALF.native_worst * most


def ratio_to_losses(evidence: CheckEvidence, number: int) -> tuple[float, ...]:
    """Return the root mean square error over that of losses nearby; empty if NaN or infinities are in it."""
    errors = RowErrors.of(evidence, number)
    if not errors.complete:
        return ()
    share = LEAST_ROUNDOFFS / HALF.scale_rms
    still = replace(errors, native=torch.zeros_like(errors.native), value=share * errors.value)
    least = widen_by_sensitivity(bounds_without_sensitivity(evidence, still), evidence.reference.sensitivity[number])
    squares = torch.stack([lost.square().mean() for lost in own_losses(evidence.reference, number)])
    return (float(rms(errors.error).max()) / max(float(least.rms.max()), float(squares.mean().sqrt())),)


def pooled_ratio(draws: Sequence[tuple[float, ...]]) -> float:
    """Return the root mean square of ratios over its limit, of the draws that have one; infinite if none has."""
    ratios = torch.tensor([ratio for draw in draws for ratio in draw], dtype=torch.float64)
    return float(ratios.square().mean().sqrt()) / LIMIT if len(ratios) else inf
