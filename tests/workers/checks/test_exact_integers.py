"""Integer results are exact; there is no tolerance in counting."""

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
