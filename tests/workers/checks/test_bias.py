"""A small error that always leans the same way is no rounding; what is left of cancelled terms is no error."""

import pytest
import torch

from tests.gpu.contracts import operators
from tests.workers.checks.cases import HONEST, gather, graph_of, operator
from workers.checks import CHECKS, CheckEvidence, Expectation
from workers.inputs import draw
from workers.protocol import Operator, Outcome, Shape

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


def _decided(change, name="normal", dtype="float32"):
    """The verdict on fresh draws of a kernel whose results are changed, by the number of the draw."""
    op = operator("rmsnorm", dtype)
    seen = [
        gather(op, name, 100 + number, lambda *a, n=number: change(HONEST["rmsnorm"](*a), n), M=64, N=256)
        for number in range(CHECK.pooled)
    ]
    return CHECK.decide(seen[-1], [CHECK.observe(each) for each in seen])


def test_a_bias_shows_in_fresh_draws_and_right_answers_have_none():
    assert _decided(lambda y, n: y).outcome is None
    found = _decided(lambda y, n: y * (1 + 1e-5))
    assert found.outcome is Outcome.PRECISION and "too large by 0.00%" in found.reason
    assert _decided(lambda y, n: y * (1 - 1e-5)).outcome is Outcome.PRECISION


@pytest.mark.parametrize("size", [1e-5, 1e-3])
def test_an_error_of_changing_sign_is_refused_if_it_is_larger_than_rounding(size):
    assert _decided(lambda y, n: y * (1 + size * (-1) ** n)).outcome is Outcome.PRECISION


def test_a_bias_of_one_draw_in_three_is_not_lost_among_the_others():
    assert _decided(lambda y, n: y * (1 + (n % 3 == 0) * 3e-5)).outcome is Outcome.PRECISION


def test_draws_without_enough_rows_say_nothing():
    op = operator("rmsnorm", "float32")
    seen = gather(op, "normal", 0, lambda *a: HONEST["rmsnorm"](*a) * 1.001, M=4, N=256)
    assert CHECK.observe(seen) == ((0.0, 0.0, 0.0, 0.0),)
    assert CHECK.decide(seen, [CHECK.observe(seen)] * CHECK.pooled).worst == 0


def _normalised(rows: int):
    """A linear layer, normalised over its batch, of inputs far from zero: its columns share errors over all rows."""
    source = (
        "import torch\n\n\ndef normalised(x, weight):\n    y = x @ weight.T\n"
        "    return torch.relu((y - y.mean(0)) * torch.rsqrt(y.var(0, unbiased=False) + 1e-5))\n"
    )
    op = Operator(
        name="normalised",
        entry="normalised",
        reference=source,
        inputs=(
            {"name": "x", "shape": ("M", "K"), "dtype": "float32"},
            {"name": "weight", "shape": ("N", "K"), "dtype": "float32"},
        ),
        outputs=({"name": "y", "dtype": "float32"},),
        shapes=({"dims": {"M": rows, "K": 140, "N": 140}},),
    )
    shape = Shape(dims={"M": rows, "K": 140, "N": 140})
    return op, shape, graph_of(op, shape)


def _in_parts(x, weight, factor=1.0):
    parts = [a @ b.T for a, b in zip(x.split(7, 1), weight.split(7, 1), strict=True)]
    while len(parts) > 1:
        parts = [sum(pair[1:], pair[0]) for pair in (parts[at : at + 2] for at in range(0, len(parts), 2))]
    y = parts[0]
    return torch.relu((y - y.mean(0)) * torch.rsqrt(y.var(0, unbiased=False) + 1e-5)) * factor


def test_errors_that_rows_share_are_one_error():
    op, shape, graph = _normalised(140)

    def seen(seed: int, factor: float) -> CheckEvidence:
        given = draw(op, shape, "shifted", seed)
        return CheckEvidence(
            operator=op, shape=shape, draw="shifted", inputs=given, inputs_after=given,
            outputs=(_in_parts(*given, factor),), reference=Expectation(op, graph, given, "shifted"),
        )  # fmt: skip

    alone = [CHECK.examine(seen(seed, 1.0)).worst for seed in range(24)]
    assert max(alone) > 0.5, "a single draw comes near a refusal, or is one"
    right, wrong = ([CHECK.observe(seen(seed, factor)) for seed in range(100, 124)] for factor in (1.0, 1 + 1e-4))
    assert CHECK.decide(seen(100, 1.0), right).outcome is None
    assert CHECK.decide(seen(100, 1.0), wrong).outcome is Outcome.PRECISION
