"""Convolutions in float64 on a card: products that are what the library makes."""

from math import inf

import pytest
import torch

from workers.convolution import DoubleConvolution, convolved

pytestmark = pytest.mark.gpu
KINDS = {
    "gathered": DoubleConvolution([2, 1], [1, 2], [1, 2], False, [0, 0], 2),
    "spread": DoubleConvolution([2, 3], [1, 2], [2, 1], True, [1, 2], 1),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_card_multiplies_what_is_finite(name: str):
    of = KINDS[name]
    x = torch.randn(3, 32, 40, 50, dtype=torch.float64, device="cuda")
    weight = torch.randn(32, 32 // of.groups, 3, 5, dtype=torch.float64, device="cuda")
    args = (x, weight, None, of.stride, of.padding, of.dilation, of.transposed, of.extra, of.groups)
    found = convolved(args)
    assert found is not None
    torch.testing.assert_close(found, torch.ops.aten.convolution(*args), rtol=1e-12, atol=1e-10)
    weight[0, 0, 0, 0] = inf
    assert convolved(args) is None
