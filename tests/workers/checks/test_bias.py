"""A small error that always leans the same way is no rounding; what is left of cancelled terms is no error."""

import pytest
import torch

from tests.gpu.contracts import operators
from tests.workers.checks.cases import HONEST, gather, graph_of, operator
from workers.checks import CHECKS, CheckEvidence, Expectation
from workers.protocol import Outcome, Shape

CHECK = CHECKS["bias"]


def _worst(change):
    op = operator("rmsnorm", "float32")
    return CHECK.examine(gather(op, "normal", 0, lambda *a: change(HONEST["rmsnorm"](*a)), M=128, N=256)).worst


def test_leaning_errors_measure_worse_than_honest_ones():
    assert _worst(lambda y: y) < 1
    assert _worst(lambda y: y * (1 + 3e-7)) > _worst(lambda y: y)


@pytest.fixture(scope="module")
def peaked():
    """Inputs of a softmax's gradient, one value in one row of sixteen outweighing all others, and what is right."""
    op, shape = operators()["softmax_backward"], Shape(dims={"M": 4096, "N": 64})
    generator = torch.Generator().manual_seed(1)
    x, grad_y = (torch.randn(4096, 64, generator=generator) for _ in range(2))
    x[::16, 0] = 40.0
    given = (x.bfloat16(), grad_y.bfloat16())
    reference = Expectation(op, graph_of(op, shape), given, "timed")
    # That of a native reference which leans nowhere: a card's may sum in an order that leaves noise where others
    # leave zeros.
    reference.native = tuple(value.bfloat16() for value in reference.expected)
    return op, shape, given, reference


def _gradient(x, grad_y, factor):
    """As a kernel computes it: where one value is nearly 1, its gradient is zero but for a roundoff."""
    y = HONEST["softmax"](x.float()).float()
    return y * (grad_y.float() - (y * grad_y.float()).sum(1, keepdim=True)) * factor


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, None), (0.99, Outcome.PRECISION), (1.01, Outcome.PRECISION)])
def test_rows_of_which_only_roundoff_is_left_are_no_bias(peaked, factor, outcome):
    op, shape, given, reference = peaked
    outputs = (reference.native[0], _gradient(*given, factor).bfloat16())
    errors, expected = outputs[1].double() - reference.expected[1], reference.expected[1]
    slopes = (errors * expected).sum(1) / expected.square().sum(1)
    assert slopes[::16].mean() < -0.15, "of a row in sixteen little is left"
    seen = CheckEvidence(
        operator=op, shape=shape, draw="timed", inputs=given, inputs_after=given, outputs=outputs, reference=reference
    )
    assert CHECK.examine(seen).outcome == outcome
