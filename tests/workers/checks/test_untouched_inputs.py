"""Inputs must be left as they were, to the last byte, wherever the operator does not call them mutable."""

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks import CHECKS
from workers.protocol import Outcome

CHECK = CHECKS["untouched_inputs"]


def _with(change):
    def implementation(x):
        result = HONEST["softmax"](x)
        change(x)
        return result

    return CHECK.examine(gather(operator("softmax"), "normal", 0, implementation))


def test_one_changed_element_is_found_and_named():
    def change(x):
        x[3, 5] += 1

    finding = _with(change)
    assert finding.outcome is Outcome.INPUT_MUTATED
    assert "'x'" in finding.reason and "[3, 5]" in finding.reason


def test_a_changed_sign_of_zero_is_a_change():
    def change(x):
        x.copy_(-x)

    assert _with(change).outcome is Outcome.INPUT_MUTATED


def test_reading_is_no_change():
    assert _with(lambda x: x.sum()).outcome is None
