"""The list of contenders: eager first, what is missing with a reason."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, inputs, small_graph
from workers.baselines.contenders import COMPILE, EAGER, MAX_AUTOTUNE, contenders_of
from workers.reference import evaluate

CPU = torch.device("cpu")
ALWAYS = {EAGER, COMPILE, MAX_AUTOTUNE}
EXPECTED = {
    "attention": {*ALWAYS, "sdpa"},
    "cross_entropy": {*ALWAYS, "native", "liger"},
    "gelu": {*ALWAYS, "native"},
    "gelu_backward": {*ALWAYS, "native"},
    "layernorm": {*ALWAYS, "native", "liger"},
    "layernorm_backward": {*ALWAYS, "native"},
    "matmul": ALWAYS,
    "rmsnorm": {*ALWAYS, "native", "liger"},
    "rmsnorm_backward": {*ALWAYS, "native"},
    "rope": ALWAYS,
    "softmax": {*ALWAYS, "native", "liger"},
    "softmax_backward": {*ALWAYS, "native"},
    "swiglu": {*ALWAYS, "native", "liger"},
    "swiglu_backward": {*ALWAYS, "native"},
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_its_contenders(name):
    makers, left_out = contenders_of(OPERATORS[name], small_graph(name), CPU)
    assert set(makers) == EXPECTED[name]
    assert next(iter(makers)) == EAGER
    assert set(left_out) == {"liger"} - EXPECTED[name]


def test_eager_is_the_reference_itself():
    operator = OPERATORS["rope"]
    makers, _ = contenders_of(operator, small_graph("rope"), CPU)
    (got,) = makers[EAGER]()(inputs(operator))
    (expected,) = evaluate(small_graph("rope"), inputs(operator), double=False)
    assert torch.equal(got, expected)
