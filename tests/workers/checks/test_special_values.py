"""NaN and infinities stand where the reference has them, with its signs, and nowhere else."""

import pytest
import torch

from tests.workers.checks.cases import HONEST, gather, graph_of, operator
from workers.checks import CHECKS
from workers.checks.base import CheckEvidence
from workers.checks.expectation import Expectation
from workers.checks.special_values import _unexplained
from workers.protocol import Outcome, Shape

CHECK = CHECKS["special_values"]


def _after(change, draw):
    return CHECK.examine(gather(operator("gelu"), draw, 1, lambda x: change(HONEST["gelu"](x))))


@pytest.mark.parametrize("draw", ["normal", "planted"])
def test_an_honest_kernel_passes(draw):
    assert _after(lambda y: y, draw).outcome is None


def test_a_nan_of_its_own_is_refused():
    def add(y):
        y[0, 0] = float("nan")
        return y

    assert _after(add, "normal").outcome is Outcome.WRONG_RESULT


@pytest.mark.parametrize("part", [7, 2**27])
def test_differences_are_the_same_in_parts(part, monkeypatch):
    monkeypatch.setattr("workers.checks.special_values.PART_ELEMENTS", part)
    native = torch.tensor([[1.0, float("nan"), 3e38, float("inf")], [float("-inf"), 2.0, 0.0, float("inf")]])
    got = torch.tensor([[float("nan"), float("nan"), float("inf"), 3e38], [float("inf"), 2.0, 0.0, 1.0]])
    largest = torch.finfo(torch.float32).max
    right = [[1.0, float("nan"), largest, largest * (1 + 1e-8)], [float("-inf"), 2.0, 0.0, 1.0]]
    found = _unexplained(got, native, torch.tensor(right, dtype=torch.float64), torch.float32)
    assert found.tolist() == [[True, False, False, False], [True, True, True, False]]


@pytest.mark.parametrize("change", [lambda y: y.nan_to_num(0.0), lambda y: -y])
def test_a_swallowed_nan_or_a_turned_infinity_is_refused(change):
    assert _after(change, "planted").outcome is Outcome.WRONG_RESULT


def test_where_the_reference_overflows_smaller_inputs_are_the_way_out():
    product = operator("gelu").model_copy(update={"reference": "def gelu(x):\n    return (x * 3e38) * (x * 3e38)\n"})
    finding = CHECK.examine(gather(product, "normal", 1, lambda x: torch.full_like(x, float("nan"))))
    assert finding.outcome is Outcome.WRONG_RESULT and "where the reference is inf" in finding.reason
    assert "the reference overflows there" in finding.reason and "`low` and `high`" in finding.reason


def _in_two_parts(x):
    first, second = (part.cumprod(-1) for part in x.float().chunk(2, -1))
    return torch.cat([first, first[:, -1:] * second], -1).to(x.dtype)


def test_a_product_made_in_parts_may_overflow_where_a_stretch_of_it_does():
    """The second half of the third row alone is beyond float32, the first is small."""
    scan = operator("gelu").model_copy(
        update={"reference": "def gelu(x):\n    return x.float().cumprod(-1).to(x.dtype)\n"}
    )
    x = torch.full((8, 64), 0.5).bfloat16()
    x[2, :32], x[2, 32:] = 2.0**-4, 2.0**4
    shape = Shape(dims={"M": 8, "N": 64})
    reference = Expectation(scan, graph_of(scan, shape), (x,), "normal")

    def finding(y: torch.Tensor) -> Outcome | None:
        return CHECK.examine(CheckEvidence(scan, shape, "normal", (x,), (x,), (y,), reference)).outcome

    right = _in_two_parts(x)
    assert right.isinf().any() and reference.native[0].isfinite().all()
    assert finding(right) is None
    for place in ((2, 40), (1, 63)):
        wrong = reference.native[0].clone()
        wrong[place] = float("inf")
        assert finding(wrong) is Outcome.WRONG_RESULT


def _without(fill):
    return lambda x: torch.where(x.isnan(), fill, x.float())


@pytest.mark.parametrize(
    ("name", "right", "fill"),
    [
        ("row_max", lambda x: x.amax(-1), -3e38),
        ("row_min", lambda x: x.amin(-1), 3e38),
        ("at_least_two", lambda x: x.clamp(min=2.0), -3e38),
        ("at_most_minus_two", lambda x: x.clamp(max=-2.0), 3e38),
        ("pooled", lambda x: torch.nn.functional.max_pool2d(x[None, None], 8)[0, 0], -3e38),
    ],
)
def test_a_maximum_that_leaves_nan_out_is_refused(name, right, fill):
    """As the cards' own instructions do, beside values that outweigh whatever else stands there."""
    for seed in range(3):
        kernels = (right, lambda x: right(_without(fill)(x)).to(x.dtype))
        honest, careless = (CHECK.examine(gather(operator(name), "planted", seed, kernel)) for kernel in kernels)
        assert honest.outcome is None
        assert careless.outcome is Outcome.WRONG_RESULT and "propagate_nan" in careless.reason


def test_a_kernel_may_keep_what_float64_keeps_where_the_reference_overflows():
    overflowing = operator("softmax").model_copy(
        update={"reference": "def softmax(x):\n    e = x.exp()\n    return e / e.sum(-1, keepdim=True)\n"}
    )
    evidence = gather(overflowing, "structured", 0, HONEST["softmax"])
    assert evidence.reference.native[0].isnan().any(), "exp(128) is beyond float32"
    assert CHECK.examine(evidence).outcome is None
    assert (
        CHECK.examine(gather(overflowing, "structured", 0, lambda x: x * float("nan"))).outcome is Outcome.WRONG_RESULT
    )


def test_what_it_keeps_there_must_be_right():
    overflowing = operator("softmax").model_copy(
        update={"reference": "def softmax(x):\n    e = x.exp()\n    return e / e.sum(-1, keepdim=True)\n"}
    )

    def keep(x):
        result = HONEST["softmax"](x)
        lost = gather(overflowing, "structured", 0, HONEST["softmax"]).reference.native[0].isnan()
        return result.masked_fill(lost, 0.25)

    assert CHECKS["error_ratio"].examine(gather(overflowing, "structured", 0, HONEST["softmax"])).outcome is None
    assert CHECKS["error_ratio"].examine(gather(overflowing, "structured", 0, keep)).outcome is Outcome.WRONG_RESULT
