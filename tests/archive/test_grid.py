"""Cells and coordinates are one to one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.grid import Grid
from archive.records import AxisRecord

AXES = (AxisRecord("a", 2), AxisRecord("b", 3), AxisRecord("c", 4))
grids = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(
    lambda sizes: Grid([AxisRecord(f"axis {place}", bins) for place, bins in enumerate(sizes)])
)


def at(grid: Grid, bins: tuple[int, ...]) -> dict[str, dict[str, int]]:
    return {axis.descriptor: {"value": bin_, "bin": bin_} for axis, bin_ in zip(grid.axes, bins, strict=True)}


@given(grids)
def test_every_cell_has_its_own_bins_and_they_lead_back(grid: Grid) -> None:
    places = [grid.bins(cell) for cell in range(grid.cells)]
    assert len(set(places)) == grid.cells
    assert [grid.index(at(grid, bins)) for bins in places] == list(range(grid.cells))


@given(grids)
def test_neighbours_differ_by_one_bin_on_one_axis(grid: Grid) -> None:
    for cell in range(grid.cells):
        steps = [
            sum(abs(here - there) for here, there in zip(grid.bins(cell), grid.bins(other), strict=True))
            for other in range(grid.cells)
        ]
        assert sorted(grid.neighbours(cell)) == [other for other, distance in enumerate(steps) if distance == 1]


def test_cells_are_numbered_row_major() -> None:
    grid = Grid(AXES)
    assert grid.cells == 24
    assert grid.bins(0) == (0, 0, 0)
    assert grid.bins(1) == (0, 0, 1)
    assert grid.bins(12) == (1, 0, 0)


def test_other_descriptors_do_not_matter() -> None:
    grid = Grid(AXES)
    assert grid.index({**at(grid, (1, 2, 3)), "d": {"value": 9.0, "bin": 9}}) == 23


def test_a_missing_coordinate_has_no_cell() -> None:
    grid = Grid(AXES)
    where = at(grid, (1, 2, 3))
    del where["b"]
    assert grid.index(where) is None


@pytest.mark.parametrize("bin_", [-1, 3])
def test_a_bin_of_other_axes_is_refused(bin_: int) -> None:
    grid = Grid(AXES)
    with pytest.raises(ValueError, match="'b'"):
        grid.index(at(grid, (0, bin_, 0)))


@pytest.mark.parametrize("cell", [-1, 24])
def test_a_cell_outside_is_refused(cell: int) -> None:
    grid = Grid(AXES)
    with pytest.raises(IndexError):
        grid.bins(cell)
    with pytest.raises(IndexError):
        grid.neighbours(cell)


@pytest.mark.parametrize("axes", [(), (AxisRecord("a", 0),)])
def test_an_empty_grid_is_refused(axes: tuple[AxisRecord, ...]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Grid(axes)
