"""Which operators liger-kernel has; what it computes is compared on a card."""

import pytest

from tests.workers.baselines.catalogue import OPERATORS
from workers.baselines.liger import liger_of

THERE = {"rmsnorm", "layernorm", "softmax", "swiglu", "cross_entropy"}


@pytest.mark.parametrize("name", sorted(THERE))
def test_it_has_the_operator(name):
    assert callable(liger_of(OPERATORS[name]))


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - THERE))
def test_what_it_lacks_has_a_reason(name):
    assert isinstance(liger_of(OPERATORS[name]), str)


def test_what_has_gradients_is_not_taken_for_its_forward_pass():
    assert "only its forward passes" in liger_of(OPERATORS["swiglu_backward"])


def test_an_operator_of_the_same_name_with_other_arguments_is_another():
    swiglu = OPERATORS["swiglu"]
    renamed = tuple(item.model_copy(update={"name": f"{item.name}_t"}) for item in swiglu.inputs)
    assert liger_of(swiglu.model_copy(update={"inputs": renamed})) == "liger-kernel has no such operator"
