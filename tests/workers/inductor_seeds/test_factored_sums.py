"""Sums over rows of products sum one factor first, and compute the same."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.inductor_seeds.factored_sums import sum_factors_first

SUMMED = {
    "plain": lambda x, w, b: (x @ w).sum(1),
    "kept and scaled": lambda x, w, b: (x @ w / 2).sum(-1, keepdim=True) * 1.5,
    "with a bias": lambda x, w, b: torch.addmm(b, x, w).mul(3.0).sum(1, keepdim=True),
    "with one bias": lambda x, w, b: torch.addmm(b[:1], x, w).sum(1),
}
OTHERS = {
    "over columns": lambda x, w, b: (x @ w).sum(0),
    "of what is not linear": lambda x, w, b: (x @ w).relu().sum(1),
    "of a product that is read twice": lambda x, w, b: _twice(x @ w),
    "in 16 bits": lambda x, w, b: (x.half() @ w.half()).sum(1),
}


def _twice(product):
    return product.sum(1) + product.amax(1)


def traced(function):
    mode = FakeTensorMode()
    with mode:
        made = make_fx(function)(torch.empty(5, 7), torch.empty(7, 11), torch.empty(11))
    sum_factors_first(made)
    return made, {str(node.target) for node in made.graph.nodes}


@pytest.mark.parametrize("name", SUMMED)
def test_a_sum_over_rows_needs_no_product_of_matrices(name: str) -> None:
    made, operations = traced(SUMMED[name])
    assert not operations & {"aten.mm.default", "aten.addmm.default"}
    given = [torch.randn(5, 7), torch.randn(7, 11), torch.randn(11)]
    assert torch.allclose(made(*given), SUMMED[name](*given), atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_are_left_alone(name: str) -> None:
    assert "aten.mm.default" in traced(OTHERS[name])[1]
