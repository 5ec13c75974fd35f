"""Check: NaN and infinities are at the same places as in the reference, with the same signs."""

from math import floor, log2

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.location import at, cluster
from workers.float8 import carrier, readable
from workers.inputs import PLANTED
from workers.products import PART_ELEMENTS
from workers.protocol import Outcome

OVERFLOW_ROUNDOFFS = 4.0
"""Distance from the overflow threshold, in roundoffs, within which a result may be rounded either way. For float8 in
roundoffs of the dtype before the last rounding: quantised rows end with the largest value itself."""


BOUNDED = "or, if the operator's inputs are always finite, bound them with `low` and `high` in its spec"
"""Remedy for operators that never meet NaN and infinities."""


class SpecialValues(Check):
    """NaN and infinities appear element by element as in the reference in the operator's own dtypes.

    Where the reference overflows and float64 does not, a kernel may keep the float64 value: a softmax that subtracts
    the maximum is no worse than a reference that does not.
    """

    name = "special_values"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Compare the masks of NaN, Inf and -Inf."""
        for number, output in enumerate(evidence.operator.results):
            got, native = (readable(values[number]) for values in (evidence.outputs, evidence.reference.native))
            dtype = evidence.outputs[number].dtype
            if not dtype.is_floating_point:
                continue
            differs = _kind(got) != _kind(native)
            if differs.any():
                differs &= _unexplained(got, native, evidence.reference.expected[number], dtype)
                differs &= ~evidence.reference.undecided[number]
            if differs.any():
                place = int(differs.flatten().nonzero()[0])
                reason = (
                    f"output '{output.name}' is {got.flatten()[place].item():g} at {at(place, got.shape)}, where the "
                    f"reference is {native.flatten()[place].item():g} ({cluster(differs)}; {evidence.shape.key}, "
                    f"{evidence.draw} inputs){_advice(evidence.draw, got.flatten()[place], native.flatten()[place])}"
                )
                return CheckFinding(2.0, Outcome.WRONG_RESULT, reason)
        return CheckFinding(0.0)


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """Return 0 for finite, 1 for NaN, 2 for Inf, 3 for -Inf; int8, since there are billions of results."""
    kind = tensor.isnan().to(torch.int8)
    return kind.add_(tensor.isposinf(), alpha=2).add_(tensor.isneginf(), alpha=3)


def _unexplained(got: torch.Tensor, native: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the places where overflow explains no difference in kind; computed in parts, each in float64."""
    parts = zip(*(torch.split(tensor.flatten(), PART_ELEMENTS) for tensor in (got, native, expected)), strict=True)
    found = [
        ~_overflows(right, dtype) & (near.isfinite() | (_kind(mine) != _kind(readable(right.to(dtype)))))
        for mine, near, right in parts
    ]
    return torch.cat(found).reshape(got.shape)


def _overflows(expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the places where rounding may or may not overflow the output's dtype."""
    info = torch.finfo(dtype)
    half_step = info.eps * 2 ** floor(log2(info.max)) / 2
    near = OVERFLOW_ROUNDOFFS * torch.finfo(carrier(dtype)).eps
    found: torch.Tensor = (expected.abs() / (info.max + half_step) - 1).abs() < near
    return found


def _advice(draw: str, got: torch.Tensor, native: torch.Tensor) -> str:
    if got.isnan() and native.isfinite() and draw in PLANTED:
        return (
            ": a NaN or infinity of the inputs reaches a result that does not depend on it; leave elements out with "
            f"tl.where, not by multiplying with 0 or adding a large negative number; {BOUNDED}"
        )
    if got.isnan() and native.isfinite():
        return ": an element that is never written, an overflow, or inf - inf"
    if native.isnan() and not got.isnan():
        return (
            ": a NaN of the inputs, or one that infinities make (inf - inf, 0 * inf), must reach the output; tl.max, "
            "tl.maximum and tl.clamp leave it out unless they are told propagate_nan=tl.PropagateNan.ALL, which tl.max "
            f"cannot be: use tl.reduce with such a tl.maximum; {BOUNDED}"
        )
    if draw in PLANTED and not native.isfinite():
        return f": NaN and infinities of the inputs must be where the reference has them; {BOUNDED}"
    if native.isinf() and draw not in PLANTED:
        return (
            ": the reference overflows there; if the operator's inputs are smaller, as decays between 0 and 1 are, "
            "bound them with `low` and `high` in its spec"
        )
    return ""
