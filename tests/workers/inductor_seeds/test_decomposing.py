"""Products with a side of one row or column, as sums."""

import torch

from workers.inductor_seeds.decomposing import thin_products

ATEN = torch.ops.aten
TABLE = thin_products({})


def close(function, *given: torch.Tensor, **more: float) -> bool:
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
    known = thin_products({ATEN.mm.default: lambda x, y: x})
    assert known[ATEN.mm.default](a, b) is a
    assert (
        TABLE[ATEN.mm.default](torch.ones(2, 1, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))
        is NotImplemented
    )
