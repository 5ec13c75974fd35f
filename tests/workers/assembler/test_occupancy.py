import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.assembler.occupancy import occupancy, resident_programs
from workers.targets import TARGETS

SM_90, SM_86, GFX942 = TARGETS["sm_90"], TARGETS["sm_86"], TARGETS["gfx942"]


@pytest.mark.parametrize(
    ("num_warps", "registers", "shared_bytes", "expected", "limit"),
    [
        (4, 32, 0, 16, "threads: 64 warps / 4"),
        (1, 16, 0, 32, "programs"),
        (4, 128, 0, 4, "registers: 4096 a warp, 4 warps a scheduler, 16 / 4"),
        (4, 255, 0, 2, "registers: 8192 a warp after rounding, 2 warps a scheduler"),
        (8, 110, 98304, 2, "shared memory: 233472 / (98304 + 1024)"),
        (4, 33, 0, 12, "registers: 1280 a warp after rounding, 12 warps a scheduler"),
        (32, 64, 0, 1, "registers: 2048 a warp, 8 warps a scheduler, 32 / 32"),
        (32, 128, 0, 0, "registers: not even one"),
    ],
)
def test_the_smallest_limit_counts(
    num_warps: int, registers: int, shared_bytes: int, expected: int, limit: str
) -> None:
    assert resident_programs(SM_90, num_warps, registers, shared_bytes) == expected, limit


def test_other_sheets_have_other_limits() -> None:
    assert resident_programs(SM_86, 4, 32, 0) == 12
    assert resident_programs(GFX942, 4, 128, 0) == 4
    assert resident_programs(GFX942, 4, 64, 40_000) == 1


def test_occupancy_is_a_share_of_warp_slots() -> None:
    assert occupancy(SM_90, 4, 16) == 1.0
    assert occupancy(SM_90, 8, 2) == 0.25
    assert occupancy(SM_90, 4, 0) == 0.0


@given(st.sampled_from(sorted(TARGETS)), st.integers(1, 32), st.integers(1, 255), st.integers(0, 2**18))
def test_more_of_anything_never_fits_better(target: str, num_warps: int, registers: int, shared_bytes: int) -> None:
    sheet = TARGETS[target]
    fits = resident_programs(sheet, num_warps, registers, shared_bytes)
    assert 0 <= fits <= sheet.blocks_sm
    assert resident_programs(sheet, num_warps, registers + 1, shared_bytes) <= fits
    assert resident_programs(sheet, num_warps, registers, shared_bytes + 1) <= fits
    assert resident_programs(sheet, num_warps + 1, registers, shared_bytes) <= fits
    assert 0 <= occupancy(sheet, num_warps, fits) <= 1
