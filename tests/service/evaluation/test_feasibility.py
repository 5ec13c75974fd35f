import pytest

from archive.records import AxisRecord
from service.evaluation.feasibility import count_impossible, is_impossible
from workers.targets import TARGETS

SHEET = TARGETS["sm_90"]


@pytest.mark.parametrize(
    "bins, expected",
    [
        # 32 warps are 1024 threads, which have 64 of the 65,536 registers each.
        ({"registers": 1, "num_warps": 5}, False),
        ({"registers": 2, "num_warps": 5}, True),
        # 16 warps have 128 each.
        ({"registers": 3, "num_warps": 4}, False),
        ({"registers": 4, "num_warps": 4}, True),
        # 2048 resident threads have 32 each.
        ({"registers": 0, "occupancy": 4}, False),
        ({"registers": 1, "occupancy": 4}, True),
        ({"registers": 4}, False),
        ({"num_warps": 5}, False),
        ({}, False),
    ],
)
def test_threads_cannot_have_more_registers_than_there_are(bins: dict[str, int], expected: bool) -> None:
    assert is_impossible(bins, SHEET) == expected


def test_cells_that_cannot_exist_are_counted_over_all_axes() -> None:
    axes = [AxisRecord("programs_per_sm", 8), AxisRecord("num_warps", 6), AxisRecord("registers", 5)]
    assert count_impossible(axes, SHEET) == 8 * 4
    assert count_impossible(axes[:2], SHEET) == 0
