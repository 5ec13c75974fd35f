"""What axes tell apart: by hand, and against the definitions of entropy and mutual information."""

from collections import Counter
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.descriptors import DESCRIPTORS
from benchmarks.census import Census, Counting, Spread

WARPS, REGISTERS = DESCRIPTORS["num_warps"].axis, DESCRIPTORS["registers"].axis
AXES = (WARPS, REGISTERS)


def kernel(warps: int, registers: int | None = None) -> dict[str, dict[str, float]]:
    found = {"num_warps": {"value": 0.0, "bin": warps}}
    return found if registers is None else {**found, "registers": {"value": 0.0, "bin": registers}}


def counted(kernels: list[dict[str, dict[str, float]]]) -> Census:
    counting = Counting(AXES)
    for each in kernels:
        counting.add(each)
    return counting.census()


def test_no_kernels_tell_nothing() -> None:
    census = counted([])
    assert (census.kernels, census.cells.reached, census.cells.effective, census.shared) == (0, 0, 0.0, {})
    assert set(census.descriptors) == set(DESCRIPTORS)


def test_an_axis_with_one_bin_taken_tells_nothing() -> None:
    spread = counted([kernel(1, 0), kernel(1, 2)]).descriptors["num_warps"]
    assert (spread.reached, spread.entropy_bits, spread.effective, spread.largest_share) == (1, 0.0, 1.0, 1.0)
    assert spread.places == WARPS.bins


def test_equally_full_bins_count_each() -> None:
    census = counted([kernel(0, 0), kernel(1, 1), kernel(2, 2), kernel(0, 0), kernel(1, 1), kernel(2, 2)])
    assert census.descriptors["num_warps"].effective == pytest.approx(3)
    assert census.cells.effective == pytest.approx(3)
    assert census.cells.places == WARPS.bins * REGISTERS.bins


def test_axes_that_move_together_share_everything_and_free_ones_nothing() -> None:
    together = counted([kernel(place, place) for place in range(3)])
    apart = counted([kernel(warps, registers) for warps in range(3) for registers in range(3)])
    pair = ("num_warps", "registers")
    assert together.shared[pair] == pytest.approx(1)
    assert apart.shared[pair] == pytest.approx(0, abs=1e-12)


def test_a_pair_of_which_one_tells_nothing_is_left_out() -> None:
    assert counted([kernel(0, 0), kernel(0, 1)]).shared == {}


def test_a_kernel_without_an_axis_has_no_cell() -> None:
    census = counted([kernel(0), kernel(0, 0)])
    assert census.kernels == 2
    assert census.cells.kernels == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60))
def test_numbers_are_those_of_the_definitions(places: list[tuple[int, int]]) -> None:
    census = counted([kernel(*place) for place in places])
    table = np.zeros((3, 4))
    for place, count in Counter(places).items():
        table[place] = count / len(places)
    rows, columns = table.sum(1), table.sum(0)

    def entropy(shares: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
        return -sum(share * log2(share) for share in shares.ravel() if share)

    assert census.descriptors["num_warps"].entropy_bits == pytest.approx(entropy(rows), abs=1e-9)
    assert census.cells.entropy_bits == pytest.approx(entropy(table), abs=1e-9)
    information = sum(
        table[one, other] * log2(table[one, other] / (rows[one] * columns[other]))
        for one in range(3)
        for other in range(4)
        if table[one, other]
    )
    poorer = min(entropy(rows), entropy(columns))
    if poorer > 1e-9:
        assert census.shared["num_warps", "registers"] == pytest.approx(information / poorer, abs=1e-6)


def test_a_spread_says_how_many_have_a_place() -> None:
    spread = Spread(4, {0: 3, 2: 1})
    assert (spread.kernels, spread.reached, spread.largest_share) == (4, 2, 0.75)
