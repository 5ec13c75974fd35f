"""Products that are not finite: where stretches of factors may overflow."""

import pytest
import torch

from workers.products import may_overflow

BIG = 1e20
CASES = {
    "small": ([2.0, -3.0, 0.5], [0, 0, 0]),
    "a stretch": ([1e-30, -BIG, BIG, 1e-30, 1.0], [0, 0, 1, 1, 1]),
    "factors apart": ([BIG, 1e-20, BIG, 1e-20, 1.0], [0, 0, 0, 0, 0]),
    "the beginning": ([BIG, BIG, 1e-30], [0, 1, 1]),
    "behind a zero": ([0.0, BIG, 1.0, BIG], [0, 0, 0, 1]),
    "around a zero": ([BIG, 0.0, BIG], [0, 0, 0]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("part", [1, 2**20])
@pytest.mark.parametrize("name", CASES)
def test_a_stretch_of_factors_overflows_up_to_the_end(name: str, part: int):
    factors, expected = CASES[name]
    row = torch.tensor(factors)
    assert may_overflow(row, 0, part=part).tolist() == [bool(place) for place in expected]
    columns = torch.stack([row, torch.ones_like(row)], -1)
    assert may_overflow(columns, 0, part=part)[:, 0].tolist() == [bool(place) for place in expected]
    assert not may_overflow(columns, 0, part=part)[:, 1].any()
