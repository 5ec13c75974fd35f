"""Ordered inputs keep their order in every draw, and the draws differ in what kernels may wrongly count on."""

import pytest
import torch

from workers.inputs import DRAWS, draw
from workers.ordered_inputs import draw_ordered
from workers.protocol import Distribution, Operator, Shape

ROWS, COLUMNS, END = 3, 9, 40


def drawn(distribution: Distribution, name: str, columns: int = COLUMNS, high: int = END, low: int = 0) -> torch.Tensor:
    return draw_ordered(distribution, (ROWS, columns), low, high, name, torch.Generator().manual_seed(7))


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("columns", [2, 3, COLUMNS, 65])
@pytest.mark.parametrize("high", [0, 1, END])
def test_segments_divide_all_elements(name: str, columns: int, high: int) -> None:
    offsets = drawn(Distribution.OFFSETS, name, columns, high)
    assert (offsets[:, 0] == 0).all() and (offsets[:, -1] == high).all() and (offsets.diff(dim=1) >= 0).all()
    ends = drawn(Distribution.ENDS, name, columns, high)
    assert (ends >= 0).all() and (ends[:, -1] == high).all() and (ends.diff(dim=1) >= 0).all()
    starts = drawn(Distribution.STARTS, name, columns, high)
    assert (starts[:, 0] == 0).all() and (starts <= high).all() and (starts.diff(dim=1) >= 0).all()
    counts = drawn(Distribution.COUNTS, name, columns, high)
    assert (counts >= 0).all() and (counts.sum(dim=1) == high).all()


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(("columns", "low", "high"), [(1, 0, 1), (COLUMNS, 3, END), (COLUMNS, 0, COLUMNS), (65, 5, 71)])
def test_indices_are_sorted_or_different_within_their_bounds(name: str, columns: int, low: int, high: int) -> None:
    ascending = drawn(Distribution.SORTED, name, columns, high, low)
    different = drawn(Distribution.UNIQUE, name, columns, high, low)
    for values in (ascending, different):
        assert (values >= low).all() and (values < high).all()
    assert (ascending.diff(dim=1) >= 0).all()
    assert (different.sort(dim=1).values.diff(dim=1) > 0).all()


def test_draws_have_empty_single_and_unequal_segments() -> None:
    found = {name: drawn(Distribution.COUNTS, name, 33, 1000) for name in DRAWS}
    assert (found["shifted"] == 1000).any(dim=1).all()
    assert ((found["heavy"] > 0).sum(dim=1) <= 3).all()
    assert (found["structured"][:, 0] == 0).all() and (found["structured"][:, -1] == 0).all()
    assert (found["normal"] == 0).any() and found["normal"].max() < 4 * 1000 / 33
    assert all(not (counts == counts[:, :1]).all() for counts in found.values())


def test_draws_have_the_identity_its_reverse_and_any_order() -> None:
    found = {name: drawn(Distribution.UNIQUE, name, 33, 33) for name in DRAWS}
    plain = torch.arange(33).expand(ROWS, 33)
    assert torch.equal(found["structured"], plain) and torch.equal(found["shifted"], plain.flip(1))
    assert ((found["heavy"] != plain).sum(dim=1) == 2).all()
    assert ((found["normal"] != plain).sum(dim=1) > 20).all()
    assert (drawn(Distribution.UNIQUE, "shifted", 5, 1000)[:, 0] == 999).all()
    assert torch.equal(drawn(Distribution.UNIQUE, "structured", 5, 1000, 7), torch.arange(7, 12).expand(ROWS, 5))


def test_absent_and_empty_inputs_are_drawn_without_elements() -> None:
    operator = Operator.model_validate(
        {
            "name": "f",
            "entry": "f",
            "reference": "def f(x, bias, o): ...",
            "inputs": [
                {"name": "x", "shape": ["T", 4], "dtype": "float32"},
                {"name": "bias", "shape": [4], "dtype": "float32", "optional": True},
                {"name": "o", "shape": ["B+1"], "dtype": "int64", "distribution": "offsets", "high": "T"},
            ],
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": [{"dims": {"T": 8, "B": 2, "bias": 1}}],
            "ranges": {"T": (0, 8)},
        }
    )
    for name in DRAWS:
        x, bias, offsets = draw(operator, Shape(dims={"T": 0, "B": 2, "bias": 0}), name, 1)
        assert (x.shape, bias.shape, offsets.tolist()) == ((0, 4), (0,), [0, 0, 0])
        assert [each is None for each in operator.arguments((x, bias, offsets), {"bias": 0})] == [False, True, False]
