import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.assembler import CLASSES, assemble
from workers.predict import DIGITS, DRAM_SHARE, ISSUE_CYCLES, L2_RATIO, START_US, Work, predict_us
from workers.protocol import Readings
from workers.targets import TARGETS

SM_90 = TARGETS["sm_90"]


@st.composite
def readings(draw: st.DrawFn) -> Readings:
    launches = draw(st.integers(1, 6))
    programs = draw(st.integers(launches, 100_000))
    return Readings(
        launches=launches,
        programs=programs,
        programs_per_sm=programs / 132,
        num_warps=draw(st.sampled_from([1, 2, 4, 8, 16, 32])),
        registers=draw(st.integers(16, 255)),
        spill_bytes=draw(st.integers(0, 4096)),
        shared_bytes=draw(st.integers(0, 200_000)),
        occupancy=draw(st.none() | st.floats(0.01, 1)),
        load_width_bytes=draw(st.sampled_from([0, 1, 2, 4, 8, 16, 32])),
        memory_path="plain",
        tensor_core=draw(st.sampled_from(["none", "mma", "wgmma"])),
        bytes_required=draw(st.integers(1, 2**34)),
        bytes_moved=draw(st.none() | st.integers(1, 2**36)),
        instructions={name: draw(st.integers(0, 500)) for name in CLASSES},
        looped={name: draw(st.integers(0, 500)) for name in CLASSES},
        turn_bytes=draw(st.none() | st.integers(0, 2**30)),
    )


WORKS = st.builds(Work, matrix_flops=st.floats(0, 1e15), moved_ratio=st.floats(1, 100), other_steps=st.integers(0, 10))
SHEETS = st.sampled_from(sorted(TARGETS)).map(TARGETS.__getitem__)


def changed(read: Readings, **changes: Any) -> Readings:
    return read.model_copy(update=changes)


@given(readings(), SHEETS, WORKS)
def test_a_prediction_is_a_time(read: Readings, target: Any, work: Work) -> None:
    predicted = predict_us(read, target, work)
    assert math.isfinite(predicted)
    assert predicted >= START_US * read.launches
    assert float(f"{predicted:.{DIGITS}g}") == predicted


@given(readings(), SHEETS, WORKS, st.integers(2, 5))
def test_a_repeated_launch_is_never_faster(read: Readings, target: Any, work: Work, times: int) -> None:
    repeated = changed(
        read,
        launches=read.launches * times,
        programs=read.programs * times,
        spill_bytes=(read.spill_bytes or 0) * times,
        instructions={name: count * times for name, count in read.instructions.items()},
        looped={name: count * times for name, count in read.looped.items()},
    )
    assert predict_us(repeated, target, work) >= predict_us(read, target, work)


@given(readings(), SHEETS, WORKS, st.integers(1, 10))
def test_more_steps_are_never_faster(read: Readings, target: Any, work: Work, steps: int) -> None:
    more = Work(work.matrix_flops, work.moved_ratio, work.other_steps + steps)
    assert predict_us(read, target, more) >= predict_us(read, target, work)


@given(readings(), SHEETS, WORKS, st.integers(1, 2**34))
def test_more_bytes_are_never_faster(read: Readings, target: Any, work: Work, more: int) -> None:
    before = predict_us(read, target, work)
    assert predict_us(changed(read, bytes_required=(read.bytes_required or 0) + more), target, work) >= before
    if read.bytes_moved is not None:
        assert predict_us(changed(read, bytes_moved=read.bytes_moved + more), target, work) >= before


@given(readings(), SHEETS, WORKS, st.integers(1, 10_000))
def test_spills_are_never_faster(read: Readings, target: Any, work: Work, more: int) -> None:
    spilling = changed(read, spill_bytes=(read.spill_bytes or 0) + more)
    assert predict_us(spilling, target, work) >= predict_us(read, target, work)


@given(readings(), SHEETS, WORKS, st.sampled_from(CLASSES), st.integers(1, 500))
def test_more_instructions_are_never_faster(read: Readings, target: Any, work: Work, name: str, more: int) -> None:
    if name in ("load_global", "store_global"):
        return  # More of these mean fewer turns, or more bytes in flight.
    busier = changed(read, instructions={**read.instructions, name: read.instructions[name] + more})
    assert predict_us(busier, target, work) >= predict_us(read, target, work)


@given(readings(), SHEETS, WORKS)
def test_higher_occupancy_and_wider_loads_are_never_slower(read: Readings, target: Any, work: Work) -> None:
    before = predict_us(read, target, work)
    assert predict_us(changed(read, occupancy=1.0), target, work) <= before
    assert predict_us(changed(read, load_width_bytes=2 * (read.load_width_bytes or 0)), target, work) <= before


@given(readings(), st.floats(0, 1e15), st.floats(1, 1e15))
def test_more_matrix_work_is_never_faster(read: Readings, flops: float, more: float) -> None:
    assert predict_us(read, SM_90, Work(flops + more)) >= predict_us(read, SM_90, Work(flops))


@given(readings(), SHEETS)
def test_nothing_is_faster_than_its_memory_traffic(read: Readings, target: Any) -> None:
    floor_us = (read.bytes_required or 0) / (target.dram_bytes_per_s * DRAM_SHARE) * 1e6
    assert predict_us(read, target) >= floor_us * 0.99


def test_a_plan_without_launches_costs_its_other_steps() -> None:
    empty = Readings(launches=0, programs=0, programs_per_sm=0, num_warps=0, bytes_required=0)
    assert predict_us(empty, SM_90) == 0.0
    assert predict_us(empty, SM_90, Work(other_steps=2)) == 2 * START_US


def test_measured_bytes_go_before_a_ratio() -> None:
    read = rmsnorm_readings()
    moved = changed(read, bytes_moved=2 * (read.bytes_required or 0))
    assert predict_us(moved, SM_90, Work(moved_ratio=9.0)) == predict_us(read, SM_90, Work(moved_ratio=2.0))
    assert predict_us(moved, SM_90) > predict_us(read, SM_90)


def test_what_stands_in_loops_is_issued_again_and_again() -> None:
    read = changed(rmsnorm_readings(), bytes_moved=2**32, turn_bytes=2**20)
    turned = changed(read, looped=read.instructions)
    assert predict_us(turned, SM_90) > 10 * predict_us(changed(read, turn_bytes=0), SM_90)
    assert predict_us(read, SM_90) < predict_us(turned, SM_90)


def test_programs_are_started_one_after_the_other() -> None:
    # 131,072 programs of one warp took 82 us on an H200 on 2026-11-23, at 34 and at 69 MB.
    small = changed(rmsnorm_readings(), programs=131_072, num_warps=1, instructions={}, bytes_required=34_000_000)
    assert 75 < predict_us(small, SM_90) < 95


def test_the_constants_cover_every_class() -> None:
    assert set(ISSUE_CYCLES) == set(CLASSES)
    assert L2_RATIO > DRAM_SHARE


def rmsnorm_readings(target: str = "sm_90") -> Readings:
    kernel = compiled("rmsnorm", target)
    done = assemble(bundle_of(kernel, rmsnorm_plan(kernel, {"M": 4096, "N": 4096})), RMSNORM)
    return done.readings[0]


def test_a_row_of_rmsnorm_a_program_is_near_what_was_measured() -> None:
    # On an H200 on 2026-11-21 such kernels took 19.2 to 21.0 us at 4096 x 4096; moving the bytes alone takes 15.7 us.
    assert 15.7 < predict_us(rmsnorm_readings(), SM_90) < 1.3 * 21.0


@pytest.mark.parametrize(("slower", "faster"), [("sm_80", "sm_90"), ("sm_90", "sm_100")])
def test_a_card_with_more_bandwidth_is_faster(slower: str, faster: str) -> None:
    times = [predict_us(rmsnorm_readings(name), TARGETS[name]) for name in (slower, faster)]
    assert times[0] > times[1]
