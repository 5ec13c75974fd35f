"""Check: outputs have the dtypes and shapes of the reference's."""

from workers.checks.base import Check, CheckEvidence, CheckFinding
from workers.protocol import Outcome


class OutputTypes(Check):
    """As many outputs as declared, each in its dtype and the reference's shape."""

    name = "output_types"

    def examine(self, evidence: CheckEvidence) -> CheckFinding:
        """Compare dtypes and shapes."""
        declared = evidence.operator.results
        if len(evidence.outputs) != len(declared):
            reason = f"returned {len(evidence.outputs)} tensors, but the operator has {len(declared)} outputs"
            return CheckFinding(2.0, Outcome.WRONG_OUTPUT_TYPE, reason)
        for output, got, reference in zip(declared, evidence.outputs, evidence.reference.native, strict=True):
            if (got.dtype, got.shape) != (reference.dtype, reference.shape):
                reason = (
                    f"output '{output.name}' is {_describe(got.dtype, got.shape)} at {evidence.shape.key}; "
                    f"it must be {_describe(reference.dtype, reference.shape)}"
                )
                return CheckFinding(2.0, Outcome.WRONG_OUTPUT_TYPE, reason)
        return CheckFinding(0.0)


def _describe(dtype: object, shape: object) -> str:
    return f"{str(dtype).removeprefix('torch.')}{list(shape) if isinstance(shape, tuple) else shape}"
