"""Expectations: sensitivity follows conditioning, and what does not depend on planted values is left open."""

import pytest
import torch

from tests.gpu.contracts import operators
from tests.workers.checks.cases import graph_of, operator
from workers.checks import Expectation
from workers.checks.expectation import INTERMEDIATE_ROUNDOFFS
from workers.protocol import Graph, InputRef, Operator, Shape

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
    assert calm.max() < 1e-4
    assert wild.max() > 1e-4


def test_only_the_singular_draw_is_nudged_by_roundoffs_of_the_inputs():
    x = torch.randn(4, 64).bfloat16()
    draws = ("normal", "structured", "timed")
    normal, structured, timed = (expectation("softmax", x, draw=draw).sensitivity[0] for draw in draws)
    assert structured.mean() > 1000 * normal.mean()
    assert torch.equal(timed, normal), "whoever tells what is timed by its outliers must be as exact there"


def test_what_few_elements_may_miss_is_known_of_timed_content_alone():
    x = torch.randn(4, 64).bfloat16()
    draws = ("normal", "structured", "timed")
    normal, structured, timed = (expectation("softmax", x, draw=draw) for draw in draws)
    assert torch.equal(timed.coarse_sensitivity[0], structured.sensitivity[0])
    assert not normal.coarse_sensitivity[0].any() and not structured.coarse_sensitivity[0].any()


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


@pytest.mark.parametrize("special", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["row_max", "row_min", "at_least_two", "at_most_minus_two", "pooled"])
def test_what_only_values_beyond_the_drawn_ones_would_change_is_decided(name, special):
    op, shape = operator(name), Shape(dims={"M": 8, "N": 64})
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(7)).bfloat16()
    x[2, 0], x[2, 1], x[3, 5] = 4.0, -4.0, float(special)
    reference = Expectation(op, graph_of(op, shape), (x,), "planted")
    assert special != "nan" or reference.native[0].isnan().any()
    assert not reference.undecided[0].any()


def test_stand_ins_do_not_overflow_what_a_reference_multiplies_by_zero():
    x, weight = torch.randn(4, 64).bfloat16(), torch.full((64,), 6.0, dtype=torch.bfloat16)
    x[1, 30], x[2, 3] = float("nan"), float("nan")
    reference = expectation("first_powers", x, weight, draw="planted")
    assert reference.native[0].isnan().sum() == 2
    assert reference.undecided[0].nonzero().tolist() == [[1, 30]], "the eighth column and those behind it are left out"


def test_sums_in_another_order_are_within_the_sensitivity_of_what_they_feed():
    """Scores of a thousand, summed up in float32, differ by a thousandth; so do probabilities."""
    op, shape = operator("attention", "float32"), Shape(dims={"H": 2, "M": 48, "N": 96})
    x = [torch.randn(1, 2, 48, 96, generator=torch.Generator().manual_seed(seed)) + 30 for seed in range(3)]
    reference = Expectation(op, graph_of(op, shape), x, "shifted")
    q, k, v = x
    scores = torch.zeros(1, 2, 48, 48)
    for column in range(96):
        scores += q[..., column, None] * k[..., None, :, column]
    masked = (scores * 96**-0.5).masked_fill(~torch.ones(48, 48, dtype=torch.bool).tril(), float("-inf"))
    moved = (torch.softmax(masked, -1) @ v).double() - reference.expected[0]
    rows = (moved.square().mean(-1) / reference.sensitivity[0].square().mean(-1)).sqrt()
    assert rows.max() < 4


def test_a_single_number_can_be_nudged():
    same = graph_of(operator("softmax"), SHAPE).model_copy(update={"nodes": (), "outputs": (InputRef(input=0),)})
    moved = Expectation(operator("softmax"), same, (torch.tensor(2.0),), "normal").sensitivity[0]
    assert moved.shape == () and 0 < moved < 1e-5


def test_no_factor_is_left_where_it_is_by_many_nudges():
    """Of 4,096 values that one factor decides each, four nudges leave some nearly where they are, and 32 leave none."""
    same = graph_of(operator("softmax"), SHAPE).model_copy(update={"nodes": (), "outputs": (InputRef(input=0),)})
    reference = Expectation(operator("softmax"), same, (torch.ones(64, 64),), "normal")
    few, many = reference.sensitivity[0], reference.full_sensitivity[0]
    assert (few <= many).all()
    assert few.min() < few.median() / 4 and many.min() > many.median() / 2


def movement(x, *nodes, backward):
    """How far the last of a graph's nodes moves, which all have the shape of their input `x`."""
    shape = {"dims": {"N": len(x)}}
    graph = Graph(
        shape=shape,
        nodes=nodes,
        outputs=({"node": len(nodes) - 1},),
        output_shapes=((len(x),),),
        output_dtypes=("float32",),
    )
    judged = Operator(
        name="f",
        entry="f",
        reference="def f(x): ...",
        shapes=(shape,),
        inputs=({"name": "x", "shape": ("N",), "dtype": "float32"},),
        outputs=({"name": "y", "dtype": "float32", "shape": ("N",)},),
        backward=backward,
    )
    return Expectation(judged, graph, [x], "normal").sensitivity[0]


def test_gradients_are_as_sensitive_as_the_terms_that_cancel_in_them():
    half = {"op": "aten.mul.Tensor", "args": ({"input": 0}, 0.5)}
    rest = {"op": "aten.sub.Tensor", "args": ({"node": 0}, {"node": 1})}
    x = torch.rand(64) + 1
    moved = {backward: movement(x, half, half, rest, backward=backward) for backward in (False, True)}
    assert not moved[False].any(), "both terms move together with the input"
    assert 1e-8 < float(moved[True].mean()) < 1e-6


def test_no_intermediate_of_a_gradient_stays_where_it_is_by_luck():
    one = {"op": "aten.div.Tensor", "args": ({"input": 0}, {"input": 0})}
    moved = movement(torch.rand(100_000) + 1, one, backward=True)
    step = INTERMEDIATE_ROUNDOFFS * 2.0**-24
    assert step / 2 * 0.999 < float(moved.min()) <= float(moved.max()) <= step * 1.001


def test_gradients_are_as_sensitive_as_the_rounded_results_that_they_are_handed():
    double = {"op": "aten.mul.Tensor", "args": ({"input": 0}, 2.0)}
    cast = {"op": "aten._to_copy.default", "args": ({"node": 0},), "kwargs": {"dtype": {"dtype": "bfloat16"}}}
    gradient = {"op": "aten.sub.Tensor", "args": ({"node": 0}, {"input": 0})}
    x = torch.rand(64) + 1
    graph = Graph(
        shape={"dims": {"N": 64}},
        nodes=(double, cast, gradient),
        outputs=({"node": 1}, {"node": 2}),
        output_shapes=((64,), (64,)),
        output_dtypes=("bfloat16", "float32"),
    )
    judged = operators()["gelu_backward"]
    result, moved = Expectation(judged, graph, [x], "normal").sensitivity
    assert 2.0**-10 < float(moved.mean()) < 2.0**-6, "it is computed from what was rounded to bfloat16"
    assert float(result.max()) < 1e-4, "the result itself is no less exact for that"


def test_zeros_at_a_kink_of_a_gradient_may_go_either_way():
    slope = {"op": "aten.sign.default", "args": ({"input": 0},)}
    x = torch.tensor([0.0, 1.0, -1.0])
    moved = {backward: movement(x, slope, backward=backward) for backward in (False, True)}
    assert moved[False].tolist() == [0.0, 0.0, 0.0]
    assert moved[True][0] > 0.9 and moved[True][1:].max() < 1e-6


def test_the_largest_product_counts_where_there_is_one():
    a, b = torch.full((4, 8), 3.0).bfloat16(), torch.full((8, 2), 5.0).bfloat16()
    op, shape = operator("matmul"), Shape(dims={"M": 4, "K": 8, "N": 2})
    assert Expectation(op, graph_of(op, shape), (a, b), "normal").largest_product == 120.0
    assert expectation("softmax", torch.randn(4, 64).bfloat16()).largest_product == 0.0


def test_rows_of_what_is_convolved_are_nudged_by_what_a_sum_over_the_filter_may_lose():
    spec = operators()["depthwise_conv_large"]
    assert spec.precision.accumulate == "float32"
    dims = {"B": 1, "C": 4, "H": 40, "W": 40, "K": 31}
    graph = graph_of(spec, Shape(dims=dims))
    level = [torch.full(spec.input_shape(item, dims), 1.0, dtype=torch.bfloat16) for item in spec.inputs]
    inside = Expectation(spec, graph, level, "normal").sensitivity[0][..., 15:25, 15:25]
    # 31 rows of 31 equal terms, each moved by up to a roundoff times the root of 961: 3,000 roundoffs or so.
    # By the root of a row's 40 they and the elements' own 32 come to 850.
    assert 2000 < float(inside.mean()) * 2**24 < 8000


def test_the_middle_lies_between_exact_and_cut_factors_where_tf32_is_allowed():
    a, b = torch.full((4, 8), 1.0 + 2.0**-11), torch.ones(8, 2)
    for allowed in (True, False, "convolutions"):
        op = operator("matmul", "float32", precision={"allow_tf32": allowed})
        found = Expectation(op, graph_of(op, Shape(dims={"M": 4, "K": 8, "N": 2})), (a, b), "normal")
        exact = 8 * (1.0 + 2.0**-11)
        wanted = (exact + 8) / 2 if allowed is True else exact
        assert found.multiplies_tf32 is found.allows_tf32 is (allowed is True)
        torch.testing.assert_close(found.middle[0], torch.full((4, 2), wanted, dtype=torch.float64), rtol=0, atol=0)
        assert found.rounded[0].max() == (8 + 8 * 2.0**-10 if allowed is True else exact), "ties go away from zero"
