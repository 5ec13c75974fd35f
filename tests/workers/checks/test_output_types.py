"""Outputs have the operator's dtype and the reference's shape."""

import pytest
import torch

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks import CHECKS, CheckEvidence
from workers.protocol import Outcome


@pytest.mark.parametrize(
    "change", [lambda y: y.float(), lambda y: y[:1], lambda y: y.reshape(-1), lambda y: y.to(torch.float16)]
)
def test_another_dtype_or_shape_is_refused(change):
    evidence = gather(operator("gelu"), "normal", 0, HONEST["gelu"])
    changed = CheckEvidence(**{**vars(evidence), "outputs": (change(evidence.outputs[0]),)})
    finding = CHECKS["output_types"].examine(changed)
    assert finding.outcome is Outcome.WRONG_OUTPUT_TYPE and finding.reason


def test_the_declared_type_passes():
    assert CHECKS["output_types"].examine(gather(operator("gelu"), "normal", 0, HONEST["gelu"])).outcome is None
