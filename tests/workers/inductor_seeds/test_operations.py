"""Our operations have results of the same form as torch's; thin products become sums."""

from functools import partial

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.inductor_seeds.operations import CONVOLUTION, DECOMPOSITIONS, extended

HOW = {
    "plain": ([1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "uneven": ([2, 3], [1, 0], [1, 2], False, [0, 0], 2),
    "spread": ([2, 3], [1, 0], [1, 1], True, [1, 2], 2),
    "spread with gaps": ([2, 1], [0, 1], [2, 3], True, [0, 0], 1),
}


@pytest.mark.parametrize("name", HOW)
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_has_the_form_of_torchs(name: str, bias: bool):
    *_, transposed, _, groups = how = HOW[name]
    with FakeTensorMode():
        x, b = torch.empty(3, 4, 17, 19), torch.empty(6)
        weight = torch.empty(*((4, 6 // groups) if transposed else (6, 4 // groups)), 3, 2)
        traced = make_fx(
            lambda *tensors: torch.ops.aten.convolution(*tensors, *how), decomposition_table=dict(DECOMPOSITIONS)
        )(x, weight, b if bias else None)
        expected = torch.ops.aten.convolution(x, weight, None, *how)
    (called,) = [node for node in traced.graph.nodes if f"torch.ops.{node.target}" == CONVOLUTION]
    made = called.meta["val"]
    assert (made.shape, made.stride(), made.dtype) == (expected.shape, expected.stride(), expected.dtype)
    (output,) = [node for node in traced.graph.nodes if node.op == "output"]
    assert (output.args[0] is called) is not bias


ATEN = torch.ops.aten
TABLE = extended(DECOMPOSITIONS)


def close(function, *given: torch.Tensor | float | None, **more: float) -> bool:
    found, expected = TABLE[function](*given, **more), function(*given, **more)
    return found.dtype is expected.dtype and torch.allclose(found.float(), expected.float(), rtol=1e-2, atol=1e-2)


def test_a_thin_side_makes_a_sum():
    a, b, column, row = torch.randn(5, 7), torch.randn(7, 3), torch.randn(7, 1), torch.randn(1, 7)
    assert close(ATEN.mm.default, a, column)
    assert close(ATEN.mm.default, row, b)
    assert close(ATEN.mm.default, a.half(), column.half())
    assert close(ATEN.bmm.default, a.expand(2, 5, 7), column.expand(2, 7, 1))
    assert close(ATEN.mv.default, a, column.squeeze(1))
    assert close(ATEN.addmm.default, torch.randn(1), a, column, beta=0.5, alpha=2.0)
    assert close(ATEN.addmm.default, torch.full((1,), torch.nan), a, column, beta=0.0)


def test_halves_are_added_up_in_float32():
    ones = torch.ones(1, 4096, dtype=torch.bfloat16)
    graph = torch.fx.experimental.proxy_tensor.make_fx(TABLE[ATEN.mm.default])(ones, ones.t().contiguous())
    totals = [node.meta["val"].dtype for node in graph.graph.nodes if node.target is ATEN.sum.dim_IntList]
    assert totals == [torch.float32]


def test_other_products_are_left_to_the_table():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    assert TABLE[ATEN.mm.default](a, b) is NotImplemented
    assert TABLE[ATEN.addmm.default](torch.randn(3), a, b) is NotImplemented
    known = extended({ATEN.mm.default: lambda x, y: x})
    assert known[ATEN.mm.default](a, b) is a
    assert (
        TABLE[ATEN.mm.default](torch.ones(2, 1, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))
        is NotImplemented
    )


@pytest.mark.parametrize(
    "shape, how",
    [
        ((2, 3, 8, 9, 10), ([3, 3, 3], [2, 2, 2], [1, 1, 1])),
        ((3, 8, 9, 10), ([2], [])),
        ((1, 2, 7, 8, 9), ([3, 2, 4], [1, 2, 3], [1, 0, 2])),
    ],
)
def test_an_average_over_three_axes_is_a_sum_of_parts(shape: tuple[int, ...], how: tuple) -> None:
    x = torch.randn(shape)
    pool = torch.ops.aten.avg_pool3d.default
    traced = make_fx(lambda each: pool(each, *how), decomposition_table=dict(DECOMPOSITIONS))(x)
    assert not any("avg_pool3d" in str(node.target) for node in traced.graph.nodes)
    assert torch.allclose(traced(x), pool(x, *how), atol=1e-6)


@pytest.mark.parametrize(
    "how",
    [([2, 2, 2], [3, 3, 3], [0, 0, 0], True), ([3, 3, 3], [1, 1, 1], [1, 1, 1], False, False), ([5, 5, 5], [1, 1, 1])],
)
def test_other_averages_over_three_axes_stay(how: tuple) -> None:
    pool = torch.ops.aten.avg_pool3d.default
    kept = make_fx(lambda each: pool(each, *how), decomposition_table=dict(DECOMPOSITIONS))(torch.randn(1, 9, 9, 9))
    assert any("avg_pool3d" in str(node.target) for node in kept.graph.nodes)


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 3},
        {"kernel_size": (2, 1, 4), "padding": (1, 0, 2)},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
        {"kernel_size": 5},
    ],
)
def test_maxima_over_three_axes_are_those_of_torch(how: dict) -> None:
    """Small windows are parts of the input, without indices; NaN is the largest."""
    x = torch.randn(2, 3, 9, 12, 11)
    x[0, 0, 4, 4, 4], x[1, 2, 0, 0, 0] = torch.nan, -torch.inf
    pool = partial(torch.nn.functional.max_pool3d, **how)
    with enable_python_dispatcher():
        traced = make_fx(pool, decomposition_table=dict(DECOMPOSITIONS))(x)
    is_kept = any("max_pool3d" in str(node.target) for node in traced.graph.nodes)
    assert is_kept is (how.get("ceil_mode", False) or how["kernel_size"] == 5)
    assert torch.equal(traced(x).nan_to_num(9.0), pool(x).nan_to_num(9.0))


def test_softmax_of_long_rows_alone_is_made_of_one_pass_and_another() -> None:
    for function, rows in ((ATEN._softmax.default, 2048), (ATEN._log_softmax.default, 4096)):
        x = torch.randn(3, rows)
        traced = make_fx(lambda each: TABLE[function](each, -1, False))(x)  # noqa: B023
        assert any("prepare_softmax_online" in str(node.target) for node in traced.graph.nodes)
        assert torch.allclose(traced(x), function(x, -1, False), atol=1e-5)
        assert TABLE[function](x[:, :1024], -1, False) is NotImplemented
        assert TABLE[function](x.double(), -1, False) is NotImplemented
        assert TABLE[function](torch.tensor(1.0), -1, False) is NotImplemented


@pytest.mark.parametrize("how", [{}, {"right": True}, {"side": "right", "out_int32": True}])
def test_a_binary_search_counts_the_elements_before_a_value(how: dict) -> None:
    sequence, values = torch.tensor([0, 3, 3, 8]), torch.arange(-1, 10).reshape(1, -1)
    search = torch.ops.aten.searchsorted.Tensor
    traced = make_fx(lambda *each: search(*each, **how), decomposition_table=dict(DECOMPOSITIONS))(sequence, values)
    assert not any("searchsorted" in str(node.target) for node in traced.graph.nodes)
    found, right = traced(sequence, values), search(sequence, values, **how)
    assert torch.equal(found, right) and found.dtype == right.dtype
    bucketize = torch.ops.aten.bucketize.Tensor
    made = make_fx(lambda *each: bucketize(*each, right=True), decomposition_table=dict(DECOMPOSITIONS))
    assert torch.equal(made(values, sequence)(values, sequence), bucketize(values, sequence, right=True))


def test_a_search_in_several_sequences_stays() -> None:
    search = torch.ops.aten.searchsorted.Tensor
    given = torch.tensor([[0, 3], [1, 2]]), torch.tensor([[1], [1]])
    kept = make_fx(search, decomposition_table=dict(DECOMPOSITIONS))(*given)
    assert any("searchsorted" in str(node.target) for node in kept.graph.nodes)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("dim", [-1, 0])
def test_a_sort_by_rank_is_a_stable_sort(dim: int, descending: bool):
    inf, nan = float("inf"), float("nan")
    for values in (
        torch.randint(-2, 3, (5, 9)).float(),
        torch.tensor([[1.0, nan, inf, -inf], [nan, 1.0, 2.0, -inf]]),
        torch.randint(-2, 3, (6, 4)),
    ):
        found, places = DECOMPOSITIONS[ATEN.sort.stable](values, stable=True, dim=dim, descending=descending)
        right = torch.sort(values, stable=True, dim=dim, descending=descending)
        assert torch.equal(places, right.indices) and found.dtype == values.dtype
        assert torch.equal(found.nan_to_num(7), right.values.nan_to_num(7))
    assert DECOMPOSITIONS[ATEN.sort.stable](torch.zeros(2, 2048), stable=True) is NotImplemented


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_distances_are_sums_over_differences(p: float):
    assert close(ATEN._cdist_forward.default, torch.randn(2, 5, 4), torch.randn(2, 3, 4), p, None)
