"""Check: integer and boolean outputs equal the reference, but for floats on the border between two."""

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.location import at, cluster
from workers.checks.special_values import BOUNDED
from workers.inputs import PLANTED
from workers.protocol import Outcome

_ADVICE = (
    ": some inputs are NaN or infinite there; treat them as the reference does, where sort, topk and argmax put NaN "
    f"above all numbers, {BOUNDED}"
)


class ExactIntegers(Check):
    """Integers, booleans and indices are exact; ties are broken as in the reference.

    A float that is cast to an integer, as in quantisation, may lie on the border between two: either is right then. So
    are both orders of computed values that are equal but for rounding.
    """

    name = "exact_integers"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Compare outputs that are not floats."""
        for number, (output, got, expected) in enumerate(
            zip(evidence.operator.results, evidence.outputs, evidence.reference.expected, strict=True)
        ):
            if got.is_floating_point():
                continue
            if got.dtype is torch.bool:  # Torch reads any nonzero byte as true, and poison must not pass.
                got, expected = got.view(torch.uint8), expected.view(torch.uint8)
            wrong = got != expected
            if wrong.any():
                wrong = evidence.reference.unexplained(number, got, wrong)
            if wrong.any():
                place = int(wrong.flatten().nonzero()[0])
                reason = (
                    f"output '{output.name}' is {got.flatten()[place].item()} at {at(place, got.shape)}, expected "
                    f"{expected.flatten()[place].item()} ({cluster(wrong)}; {evidence.shape.key}, "
                    f"{evidence.draw} inputs){_ADVICE if evidence.draw in PLANTED else ''}"
                )
                return CheckFinding(2.0, Outcome.WRONG_RESULT, reason)
        return CheckFinding(0.0)
