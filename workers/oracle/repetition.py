"""Repetition: two runs on equal content give equal results, or nearly equal ones if additions are unordered."""

import torch

from workers.checks import CheckEvidence
from workers.checks.location import at
from workers.checks.tolerance import RowErrors, bounds_without_sensitivity, rms
from workers.float8 import readable
from workers.oracle.base import Tensors

SHARE = 0.25
"""Share of the error bounds by which two runs may differ: the effect of unordered float additions (evaluation protocol
2.3, stage C6). One unit in the last place does not count, since rounding can fall either way."""


def describe_difference(evidence: CheckEvidence, first: Tensors, second: Tensors) -> str | None:
    """Describe how two runs on equal inputs differ; None if no difference matters. The evidence is of one of them."""
    for number, output in enumerate(evidence.operator.results):
        one, other = first[number], second[number]
        places = _places(evidence, number, one, other)
        if places is not None:
            place = int(places.flatten().int().argmax())
            return (
                f"output '{output.name}' differs between two runs on equal inputs: {one.flatten()[place].item():.6g} "
                f"and {other.flatten()[place].item():.6g} at {at(place, one.shape)} ({evidence.shape.key}): a race "
                "between programs, or a read of uninitialised memory"
            )
    return None


def _places(evidence: CheckEvidence, number: int, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
    """Return where two outputs differ, in the outputs' shape; None if they do not differ too much."""
    differs = (one != other) & ~(one.isnan() & other.isnan())
    if not bool(differs.any()):
        return None
    strange = differs & ~(readable(one).isfinite() & readable(other).isfinite())
    if not one.is_floating_point() or bool(strange.any()):
        return strange if one.is_floating_point() else differs
    errors = RowErrors.of(evidence, number)
    bounds = bounds_without_sensitivity(evidence, errors)
    moved = torch.where(differs, one.double() - other.double(), 0.0).reshape(errors.value.shape)
    moved = torch.where(moved.abs() > bounds.own * errors.value.abs(), moved.abs(), 0.0)
    too_far = (moved > SHARE * bounds.worst) | (rms(moved) > SHARE * bounds.rms) & (moved >= rms(moved))
    return too_far.reshape(one.shape) if bool(too_far.any()) else None
