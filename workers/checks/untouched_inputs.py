"""Check: inputs are unchanged, byte for byte."""

import torch

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.checks.location import at
from workers.protocol import Outcome


class UntouchedInputs(Check):
    """A kernel does not change its inputs, unless the operator declares one mutable and its memory is an output."""

    name = "untouched_inputs"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Compare every input that is not an output with its content before the run."""
        inputs = zip(evidence.operator.given, evidence.inputs, evidence.inputs_after, strict=True)
        for number, (item, before, after) in enumerate(inputs):
            if item.mutable and number in evidence.overwritten:
                continue
            changed = (_raw(before) != _raw(after)).view(-1, before.element_size()).any(1)
            if changed.any():
                place = at(int(changed.nonzero()[0]), before.shape)
                reason = (
                    f"input '{item.name}' is changed at {place} ({int(changed.sum())} elements, {evidence.shape.key}): "
                    "write to the outputs only"
                )
                return CheckFinding(2.0, Outcome.INPUT_MUTATED, reason)
        return CheckFinding(0.0)


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
