"""Convolutions in float64 as matrix products: what torch's own are."""

from dataclasses import fields

import pytest
import torch

from workers.convolution import DoubleConvolution, convolved

CASES = {
    "along a line": ((7,), (3,), DoubleConvolution([1], [1], [1], False, [0], 1)),
    "uneven": ((8, 11), (3, 5), DoubleConvolution([2, 1], [1, 2], [1, 2], False, [0, 0], 1)),
    "of a volume in groups": (
        (4, 7, 5),
        (3, 3, 2),
        DoubleConvolution([1, 2, 1], [1, 0, 0], [1] * 3, False, [0] * 3, 2),
    ),
    "spread": ((5, 4), (3, 5), DoubleConvolution([2, 3], [1, 2], [1, 1], True, [1, 2], 1)),
    "spread with gaps": ((5, 6), (3, 3), DoubleConvolution([2, 1], [1, 0], [3, 2], True, [0, 0], 1)),
    "spread in groups": ((3, 2, 4), (3, 3, 3), DoubleConvolution([2] * 3, [1] * 3, [1] * 3, True, [0] * 3, 2)),
}


def tensors(extents: tuple[int, ...], taps: tuple[int, ...], of: DoubleConvolution) -> list[torch.Tensor]:
    torch.manual_seed(0)
    channels, filters = 3 * of.groups, 4 * of.groups
    sides = (channels, 4) if of.transposed else (filters, 3)
    shapes = ((5, channels, *extents), (*sides, *taps), (filters,))
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("part", [1, 400, 10**6], ids=["row by row", "several images", "at once"])
@pytest.mark.parametrize("name", CASES)
def test_products_make_the_convolution(name: str, part: int):
    extents, taps, of = CASES[name]
    x, weight, bias = tensors(extents, taps, of)
    rest = (of.stride, of.padding, of.dilation, of.transposed, of.extra, of.groups)
    for addend in (bias, None):
        expected = torch.ops.aten.convolution(x, weight, addend, *rest)
        found = of.of(x, weight, addend, part=part)
        assert found.shape == expected.shape and found.is_contiguous()
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_cpu_has_its_own():
    extents, taps, of = CASES["uneven"]
    x, weight, _ = tensors(extents, taps, of)
    assert not of.is_made_of_products(x, weight)
    assert convolved([x, weight, None, *(getattr(of, each.name) for each in fields(of))]) is None
