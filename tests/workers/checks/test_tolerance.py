"""Bounds grow with scale and with the native reference's error, and never fall below the dtype's roundoff.

Rows of float32 in which the reference lost little by luck are no measure of others; other errors still show.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.workers.checks.cases import HONEST, gather, graph_of, operator
from workers.checks import CHECKS, CheckEvidence, Expectation, tolerance
from workers.checks.error_ratio import LUCKY_ROWS, ROWS_POOLED, UNLUCKY
from workers.checks.summation import added_otherwise
from workers.checks.tolerance import (
    IN_A_ROW,
    RowErrors,
    bounds_without_sensitivity,
    is_finite,
    leeway,
    rms,
    summation_roundoff,
    widen_by_sensitivity,
)
from workers.inputs import draw
from workers.protocol import Operator, Outcome, Shape
from workers.tf32 import cut_to_tf32, round_to_tf32

CHECK = CHECKS["error_ratio"]
SHAPE = Shape(dims={"H": 2, "M": 48, "D": 64})
LUCKY = (844, 879, 1350)
"""Seeds of heavy content, of 1,500, in which products in three TF32 parts were refused."""
CAPPED = Operator(
    name="capped",
    entry="capped",
    reference="""import torch


def capped(q, k):
    later = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool, device=q.device).triu(1)
    scores = 30.0 * torch.tanh(q @ k.transpose(-1, -2) / 240.0)
    return torch.softmax(scores.masked_fill(later, -float("inf")), -1)
""",
    inputs=tuple({"name": name, "shape": ("H", "M", "D"), "dtype": "float32"} for name in "qk"),
    outputs=({"name": "y", "dtype": "float32"},),
    shapes=({"dims": SHAPE.dims},),
)
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Sums = Callable[[torch.Tensor], torch.Tensor]


def _bounds(dtype, draw="normal"):
    evidence = gather(operator("rmsnorm", dtype), draw, 0, HONEST["rmsnorm"])
    return bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0)), evidence


def test_a_narrower_dtype_may_miss_more():
    narrow, wide = _bounds("bfloat16")[0], _bounds("float32")[0]
    assert (narrow.rms > wide.rms).all() and (narrow.worst > wide.worst).all()


def test_float8_may_miss_no_more_than_what_it_is_rounded_from():
    reference = operator("rmsnorm")
    narrow = reference.model_copy(
        update={
            "reference": reference.reference.replace(".to(x.dtype)", ".to(torch.float8_e4m3fn)"),
            "outputs": tuple(each.model_copy(update={"dtype": "float8_e4m3fn"}) for each in reference.outputs),
        }
    )
    evidence = gather(narrow, "normal", 0, lambda x, w: HONEST["rmsnorm"](x.float(), w.float()).to(torch.float8_e4m3fn))
    errors, bounds = RowErrors.of(evidence, 0), bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0))
    half = _bounds("bfloat16")[0]
    torch.testing.assert_close(bounds.rms, 2 * 2**-8 * rms(errors.value))
    assert bounds.own == half.own and (bounds.worst <= half.worst).all()
    assert errors.error.abs().max() < 1e-4 < (evidence.outputs[0].double() - evidence.reference.expected[0]).abs().max()
    assert not RowErrors.to_average(evidence, 0).error.any(), "what the rounding makes leans, and is nobody's concern"


def test_bounds_are_positive_and_the_worst_element_may_miss_more_than_the_mean():
    bounds, _ = _bounds("bfloat16")
    assert (bounds.rms > 0).all() and (bounds.worst >= bounds.rms).all()


def test_sensitivity_only_widens():
    bounds, evidence = _bounds("float32", "shifted")
    wider = widen_by_sensitivity(bounds, evidence.reference.sensitivity[0])
    assert (wider.rms >= bounds.rms).all() and (wider.worst >= bounds.worst).all()


def test_few_elements_may_miss_what_inputs_rounded_once_more_move_on_timed_content():
    bounds, evidence = _bounds("bfloat16", "normal")
    moved = torch.zeros_like(evidence.reference.expected[0])
    moved[3, 5] = 2 * bounds.worst[3].item()
    few = leeway(bounds, moved)
    assert few.worst[3] == 4 * 2 and few.worst[4] == 1
    assert few.rms[3].item() == pytest.approx(4 * 2 * bounds.worst[3].item() / bounds.rms[3].item() / 96**0.5)
    assert few.rms[4] == 1


def test_errors_leave_out_what_is_not_finite():
    evidence = gather(operator("gelu"), "planted", 0, HONEST["gelu"])
    errors = RowErrors.of(evidence, 0)
    assert not errors.complete
    assert all(torch.isfinite(each).all() for each in (errors.error, errors.native, errors.value))


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_one_odd_value_costs_its_own_place_alone(odd):
    evidence = gather(operator("rmsnorm"), "normal", 0, HONEST["rmsnorm"])
    got = evidence.outputs[0].clone()
    got[3, 5] = odd
    whole, holed = RowErrors.of(evidence, 0), RowErrors.of(replace(evidence, outputs=(got,)), 0)
    assert (whole.complete, holed.complete) == (True, False)
    for one, other in ((whole.error, holed.error), (whole.native, holed.native), (whole.value, holed.value)):
        assert other[3, 5] == 0
        assert (one != other).sum() <= 1, "all others are what they were"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_what_is_finite(dtype):
    values = torch.tensor([0.0, -1.0, 2.0, 240.0]).to(dtype)
    assert is_finite(values) and is_finite(values, torch.empty(0)) and is_finite()
    assert not is_finite(values, torch.tensor([1.0, torch.nan]).to(dtype))
    assert not is_finite(torch.tensor([torch.finfo(torch.float64).max, -torch.inf]), values)


def test_a_row_s_root_mean_square():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 1e-30]], dtype=torch.float64)
    assert rms(rows).flatten().tolist() == pytest.approx([12.5**0.5, 0.0, 1e-30], rel=1e-12, abs=0.0)


def test_a_sum_over_a_whole_input_is_not_one_chain():
    evidence = gather(operator("gelu"), "normal", 0, HONEST["gelu"])
    roundoff = torch.finfo(torch.float32).eps / 2
    for sizes, summands in (((64, 96), 64 * 96), ((4096, 32000), IN_A_ROW), ((2, 4 * IN_A_ROW), 4 * IN_A_ROW)):
        whole = replace(evidence, inputs=(torch.zeros(1).expand(sizes),), outputs=(torch.zeros(()),))
        assert summation_roundoff(whole) == roundoff * summands**0.5


def in_three_parts(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    high, tall = round_to_tf32(left), round_to_tf32(right)
    low, small = cut_to_tf32(left - high), cut_to_tf32(right - tall)
    return low @ tall + high @ small + high @ tall


def in_tf32(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return round_to_tf32(left) @ round_to_tf32(right)


def one_by_one(powers: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(powers.shape[:-1])
    for column in powers.unbind(-1):
        total = total + column
    return total.unsqueeze(-1)


def capped(q: torch.Tensor, k: torch.Tensor, product: Product, sums: Sums | None = None) -> torch.Tensor:
    later = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    scores = (30.0 * torch.tanh(product(q, k.transpose(-1, -2)) / 240.0)).masked_fill(later, -float("inf"))
    if sums is None:
        return torch.softmax(scores, -1)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / sums(powers)


@cache
def given(name: str, seed: int) -> tuple[torch.Tensor, ...]:
    return draw(CAPPED, SHAPE, name, seed)


def evidence(name: str, seed: int, output: torch.Tensor) -> CheckEvidence:
    inputs = given(name, seed)
    reference = Expectation(CAPPED, graph_of(CAPPED, SHAPE), inputs, name)
    return CheckEvidence(CAPPED, SHAPE, name, inputs, inputs, (output,), reference)


@pytest.mark.parametrize("seed", LUCKY)
def test_a_row_whose_reference_was_lucky_where_a_function_is_nearly_constant_passes(seed, monkeypatch):
    found = evidence("heavy", seed, capped(*given("heavy", seed), in_three_parts))
    assert CHECK.examine(found).outcome is None
    monkeypatch.setattr(tolerance, "NEARBY", 0)
    assert CHECK.examine(found).outcome is Outcome.PRECISION, "by what the reference loses at the inputs alone"


@pytest.mark.parametrize("seed", LUCKY)
def test_coarse_products_show_on_the_same_content_in_one_row_too(seed):
    q, k = given("heavy", seed)
    right, coarse = (capped(q, k, product) for product in (torch.matmul, in_tf32))
    assert CHECK.examine(evidence("heavy", seed, coarse)).outcome is not None
    errors = (coarse - right).flatten(0, 1).norm(dim=-1)
    row = errors.argsort()[-len(errors) // 4]  # In many rows, one value is all and products do not matter.
    mixed = right.flatten(0, 1).clone()
    mixed[row] = coarse.flatten(0, 1)[row]
    assert CHECK.examine(evidence("heavy", seed, mixed.reshape(right.shape))).outcome is not None


@pytest.mark.parametrize(("rows", "roundoffs", "right"), [(3, 8.0, True), (4, 8.0, False), (1, 12.0, False)])
def test_few_rows_may_be_off_as_a_whole_by_what_each_element_may(rows, roundoffs, right):
    """A quotient by an approximate unit and a sum err alike in all elements of a row of equal values."""
    op, shape, x = operator("softmax", "float32"), Shape(dims={"M": 48, "N": 96}), torch.zeros(48, 96)
    y = torch.softmax(x.double(), -1)
    y[:rows] *= 1 + roundoffs * 2**-24
    reference = Expectation(op, graph_of(op, shape), (x,), "normal")
    found = CheckEvidence(op, shape, "normal", (x,), (x,), (y.float(),), reference)
    assert UNLUCKY * max(1.0, LUCKY_ROWS * 48) == 3.0
    assert CHECK.examine(found).outcome is (None if right else Outcome.PRECISION)


def test_sums_of_rows_with_masked_values_may_be_added_one_after_another():
    seeds = range(3, 40, 2)
    name = {1: "heavy", 3: "structured"}
    for seed in seeds:
        found = evidence(name[seed % 4], seed, capped(*given(name[seed % 4], seed), torch.matmul, one_by_one))
        assert CHECK.examine(found).outcome is None


def test_what_one_row_has_of_infinities_leaves_the_order_of_others():
    op = operator("softmax", "float32")
    shape = Shape(dims={"M": 3, "N": 4096})
    x = torch.randn(3, 4096, generator=torch.Generator().manual_seed(0))
    x[0, 0], x[1, :2048] = torch.nan, -torch.inf
    for moved in added_otherwise(graph_of(op, shape), (x,), torch.float32):
        exact = torch.softmax(x.double(), -1)
        assert moved[0][0].isnan().all() and (moved[0][1] != exact[1]).any() and (moved[0][2] != exact[2]).any()


def test_fresh_draws_decide_on_float32_as_on_narrow_outputs():
    decided = gather(operator("softmax", "float32"), "normal", 0, HONEST["softmax"])
    assert not CHECK.examine(decided).doubtful and CHECK.draws_for(decided) == ROWS_POOLED
    assert CHECK.observe(decided)[0][0] == 0.0
    often, seldom = ([((share, 0.9),)] * ROWS_POOLED for share in (1.5, 0.5))
    assert CHECK.decide(decided, often).outcome is Outcome.PRECISION and CHECK.decide(decided, seldom).outcome is None
    assert CHECK.decide(decided, [*seldom[1:], ((0.5, 1.1),)]).outcome is Outcome.PRECISION
