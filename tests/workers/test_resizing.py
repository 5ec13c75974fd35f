"""Linear resizing has torch's results, and NaN where a neighbour of weight zero is infinite."""

import pytest
import torch
from torch.nn import functional

from workers.protocol import Graph, InputRef, Node, NodeRef, Shape
from workers.reference import evaluate
from workers.resizing import RESIZING

MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}
FORMULA = next(iter(RESIZING.values()))


@pytest.mark.parametrize("axes", MODES)
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("size", [1, 3, 5, 8, 13])
def test_results_are_torchs(axes: int, align_corners: bool, size: int) -> None:
    x = torch.randn([2, 3, 5, 7, 6][:axes], dtype=torch.float64)
    wanted = [size, 4, 9][: axes - 2]
    found = functional.interpolate(x, wanted, mode=MODES[axes], align_corners=align_corners)
    assert torch.allclose(FORMULA(x, wanted, align_corners), found, atol=1e-12)


@pytest.mark.parametrize("factor", [0.5, 1.7, 2.0])
def test_a_factor_is_taken_as_it_is(factor: float) -> None:
    x = torch.randn(2, 3, 11, 8)
    found = functional.interpolate(x, scale_factor=factor, mode="bilinear")
    assert torch.allclose(FORMULA(x, found.shape[2:], False, factor, factor), found, atol=1e-5)


def test_a_reference_has_nan_where_a_kernel_may_multiply_an_infinity_by_zero() -> None:
    node = Node(op="aten.upsample_linear1d.default", args=(InputRef(input=0), (4,), False))
    graph = Graph(
        shape=Shape(dims={"N": 2}),
        nodes=(node,),
        outputs=(NodeRef(node=0),),
        output_shapes=((1, 1, 4),),
        output_dtypes=("float32",),
    )
    for double in (True, False):
        (found,) = evaluate(graph, [torch.tensor([[[1.0, torch.inf]]])], double=double)
        assert found[0, 0, 0].isnan() and (found[0, 0, 1:] == torch.inf).all()
