"""Integer results are exact; there is no tolerance in counting."""

from dataclasses import replace

import pytest
import torch

from tests.workers.checks.cases import gather, operator
from workers.checks import CHECKS
from workers.protocol import Outcome

CHECK = CHECKS["exact_integers"]


def test_the_right_index_passes():
    assert CHECK.examine(gather(operator("argmax"), "normal", 0, lambda x: x.argmax(-1))).outcome is None


def test_one_off_is_wrong():
    finding = CHECK.examine(gather(operator("argmax"), "normal", 0, lambda x: x.argmax(-1) + 1))
    assert finding.outcome is Outcome.WRONG_RESULT and finding.reason


def test_floats_are_not_its_business():
    assert CHECK.examine(gather(operator("gelu"), "normal", 0, lambda x: x * 0)).outcome is None


@pytest.mark.parametrize(("true", "outcome"), [(1, None), (0xFF, Outcome.WRONG_RESULT), (0x3F, Outcome.WRONG_RESULT)])
def test_poison_is_no_answer_where_true_is_right(true, outcome):
    evidence = gather(operator("positive"), "normal", 0, lambda x: x > 0)
    left = torch.where(evidence.reference.expected[0], true, 0).to(torch.uint8).view(torch.bool)
    finding = CHECK.examine(replace(evidence, outputs=(left,)))
    assert finding.outcome is outcome and (outcome is None or f"is {true} at" in finding.reason)
