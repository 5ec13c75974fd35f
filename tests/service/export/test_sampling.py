"""Shapes of an export: within the ranges, spread over them, and the same for all elites."""

import math

import pytest

from service.errors import InvalidInput
from service.export.sampling import SPREAD, sample
from service.operators.catalogue import load_operator
from service.operators.shapes import all_shapes
from workers.protocol import ShapeRole

MATMUL = load_operator("matmul")
JUDGED = all_shapes(MATMUL, 3)


def test_shapes_are_spread_and_a_third_of_the_sizes_is_odd() -> None:
    found = sample(MATMUL, JUDGED)
    assert found == sample(MATMUL, JUDGED) and found.all[: len(JUDGED)] == JUDGED
    drawn = [shape.dims for shape in found.all if shape.role is ShapeRole.RANDOM]
    for name, (low, high) in MATMUL.ranges.items():
        sizes = [dims[name] for dims in drawn]
        assert all(low <= size <= high for size in sizes)
        middle = math.sqrt(low * high)
        assert 0.3 < sum(size < middle for size in sizes) / len(sizes) < 0.75
        large = [size for size in sizes if size >= 64]
        assert 0.2 < sum(size % 16 > 0 for size in large) / len(large) < 0.5
    assert SPREAD <= len(found.spread) <= SPREAD + len(MATMUL.shapes)
    assert {shape.key for shape in JUDGED if shape.role is ShapeRole.BENCHMARK} <= found.spread


@pytest.mark.parametrize("name", ["rmsnorm", "matmul", "cross_entropy"])
def test_timed_shapes_cover_each_part_of_each_range(name: str) -> None:
    operator = load_operator(name)
    found = sample(operator, [])
    drawn = [shape.dims for shape in found.all if shape.key in found.spread]
    assert len(drawn) == SPREAD
    for size, (low, high) in operator.ranges.items():
        width = math.log((high + 1) / low) / SPREAD
        # Rounding to a multiple of 16 moves small sizes to other parts.
        parts = {min(int(math.log((dims[size] + 8) / low) / width), SPREAD - 1) for dims in drawn if dims[size] >= 512}
        first = int(math.log(1024 / low) / width)
        assert set(range(first + 1, SPREAD)) <= parts, size


def test_named_shapes_are_timed_and_checked() -> None:
    assert "K=64,M=7,N=33" in sample(MATMUL, JUDGED, [{"M": 7, "N": 33, "K": 64}]).spread
    for dims, reason in (({"M": 7}, "has the sizes"), ({"M": 0, "N": 8, "K": 64}, "not within"), ({"X": 1}, "sizes")):
        with pytest.raises(InvalidInput, match=reason):
            sample(MATMUL, JUDGED, [dims])
