"""Expectations: sensitivity follows conditioning, and what does not depend on planted values is left open."""

import torch

from tests.workers.checks.cases import graph_of, operator
from workers.checks import Expectation
from workers.protocol import Shape

SHAPE = Shape(dims={"M": 4, "N": 64})


def expectation(name, *inputs, draw="normal"):
    op = operator(name)
    return Expectation(op, graph_of(op, SHAPE), inputs, draw)


def test_sensitivity_grows_with_cancellation():
    weight, bias = torch.ones(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    spread = torch.randn(4, 64).bfloat16()
    level = torch.full((4, 64), 30.0, dtype=torch.bfloat16)
    calm = expectation("layernorm", spread, weight, bias).sensitivity[0]
    wild = expectation("layernorm", level, weight, bias).sensitivity[0]
    assert calm.max() < 1e-5
    assert wild.max() > 1e-4


def test_singular_draws_are_nudged_by_roundoffs_of_the_inputs():
    x = torch.randn(4, 64).bfloat16()
    normal, structured = (expectation("softmax", x, draw=draw).sensitivity[0] for draw in ("normal", "structured"))
    assert structured.mean() > 1000 * normal.mean()


def test_integers_have_no_sensitivity():
    result = expectation("argmax", torch.randn(4, 64).bfloat16())
    assert not result.sensitivity[0].any()
    assert result.expected[0].dtype == torch.int64


def test_only_independent_special_values_are_undecided():
    x = torch.randn(4, 64).bfloat16()
    assert not expectation("softmax", x).undecided[0].any()
    x[1, 3] = float("nan")
    assert not expectation("softmax", x).undecided[0].any(), "the whole row depends on it"
    op = operator("attention")
    shape = Shape(dims={"H": 1, "M": 8, "N": 4})
    q, k, v = (torch.randn(1, 1, 8, 4).bfloat16() for _ in range(3))
    v[0, 0, 5, 2] = float("nan")
    undecided = Expectation(op, graph_of(op, shape), (q, k, v), "planted").undecided[0]
    assert undecided[0, 0, :5, 2].all(), "queries before the planted key only multiply it by zero"
    assert undecided.sum() == 5
