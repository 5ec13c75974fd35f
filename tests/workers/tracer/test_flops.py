"""The arithmetic of a reference, counted by hand and by the counter."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.tracer.flops import Flops, count


def counted(function, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Flops:
    with FakeTensorMode():
        traced = make_fx(function)(*(torch.empty(shape, dtype=dtype) for shape in shapes))
    return count(traced.graph.nodes)


def test_a_matrix_product_takes_two_operations_for_each_pair() -> None:
    assert counted(lambda a, b: a @ b, (8, 4), (4, 16)) == Flops(2 * 8 * 4 * 16, 0)
    assert counted(torch.bmm, (3, 8, 4), (3, 4, 16)).matrix == 3 * 2 * 8 * 4 * 16


@pytest.mark.parametrize(
    "function, flops",
    [
        (lambda x: x + 1, 32),
        (lambda x: (x * x).sum(-1), 64),
        (lambda x: x.t().reshape(-1)[:3].double(), 0),
        (lambda x: x.view(-1), 0),
        (lambda x: x.argmax() + 1, 32),
    ],
)
def test_all_else_counts_once_an_element_and_views_count_nothing(function, flops: int) -> None:
    assert counted(function, (4, 8)) == Flops(0, flops)


def test_whole_numbers_are_no_floating_point() -> None:
    assert counted(lambda x: x + 1, (4, 8), dtype=torch.int64) == Flops(0, 0)
