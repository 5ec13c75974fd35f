"""Operations of ours in a traced reference: what they make has the form of what torch's make."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workers.inductor_seeds.operations import CONVOLUTION, DECOMPOSITIONS

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
