import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.assembler import CLASSES, assemble
from workers.predict import DIGITS, DRAM_SHARE, ISSUE_CYCLES, L2_RATIO, START_US, predict_us
from workers.protocol import LaunchReadings, Readings
from workers.targets import TARGETS

SM_90 = TARGETS["sm_90"]


COUNTS = st.fixed_dictionaries({name: st.integers(0, 500) for name in CLASSES})


@st.composite
def launches(draw: st.DrawFn) -> LaunchReadings:
    return LaunchReadings(
        programs=draw(st.integers(1, 100_000)),
        num_warps=draw(st.sampled_from([1, 2, 4, 8, 16, 32])),
        spill_bytes=draw(st.integers(0, 4096)),
        occupancy=draw(st.none() | st.floats(0.01, 1)),
        load_width_bytes=draw(st.sampled_from([0, 1, 2, 4, 8, 16, 32])),
        tensor_core=draw(st.sampled_from(["none", "mma", "wgmma"])),
        bytes_moved=draw(st.none() | st.integers(1, 2**36)),
        instructions=draw(COUNTS),
        looped=draw(COUNTS),
        turn_bytes=draw(st.integers(0, 2**30)),
        operations={name: draw(st.integers(0, 10**15)) for name in ("matrix", "float", "special")},
    )


@st.composite
def readings(draw: st.DrawFn) -> Readings:
    by_launch = draw(st.lists(launches(), min_size=1, max_size=4))
    return Readings(
        launches=len(by_launch),
        programs=sum(launch.programs for launch in by_launch),
        programs_per_sm=1.0,
        num_warps=by_launch[0].num_warps,
        bytes_required=draw(st.integers(1, 2**34)),
        by_launch=tuple(by_launch),
    )


SHEETS = st.sampled_from(sorted(TARGETS)).map(TARGETS.__getitem__)


def changed(read: Readings, **changes: Any) -> Readings:
    """Readings with the same changes made to all launches."""
    by_launch = tuple(launch.model_copy(update=changes) for launch in read.by_launch)
    return read.model_copy(update={"by_launch": by_launch})


@given(readings(), SHEETS, st.integers(0, 10))
def test_a_prediction_is_a_time(read: Readings, target: Any, other_steps: int) -> None:
    predicted = predict_us(read, target, other_steps=other_steps)
    assert math.isfinite(predicted)
    assert predicted >= START_US * (read.launches + other_steps) * 0.99
    assert float(f"{predicted:.{DIGITS}g}") == predicted


@given(readings(), SHEETS, st.integers(2, 5))
def test_a_repeated_launch_is_never_faster(read: Readings, target: Any, times: int) -> None:
    known = changed(read, bytes_moved=2**20)
    repeated = known.model_copy(update={"launches": times * known.launches, "by_launch": known.by_launch * times})
    assert predict_us(repeated, target) >= predict_us(known, target)


@given(readings(), SHEETS, st.integers(1, 10))
def test_more_steps_are_never_faster(read: Readings, target: Any, steps: int) -> None:
    assert predict_us(read, target, other_steps=steps) >= predict_us(read, target)


@given(readings(), SHEETS, st.integers(0, 2**34), st.integers(1, 2**34))
def test_what_other_steps_move_takes_its_time(read: Readings, target: Any, size: int, more: int) -> None:
    first, second = (predict_us(read, target, other_steps=1, other_bytes=each) for each in (size, size + more))
    assert second >= first
    assert second >= START_US + (size + more) / target.dram_bytes_per_s * 1e6


@given(readings(), SHEETS, st.integers(1, 2**34))
def test_more_bytes_are_never_faster(read: Readings, target: Any, more: int) -> None:
    required = read.model_copy(update={"bytes_required": (read.bytes_required or 0) + more})
    assert predict_us(required, target) >= predict_us(read, target)
    known = changed(read, bytes_moved=2**20)
    assert predict_us(changed(known, bytes_moved=2**20 + more), target) >= predict_us(known, target)


@given(readings(), SHEETS, st.integers(1, 10_000))
def test_spills_are_never_faster(read: Readings, target: Any, more: int) -> None:
    spilling = [
        launch.model_copy(update={"spill_bytes": (launch.spill_bytes or 0) + more}) for launch in read.by_launch
    ]
    assert predict_us(read.model_copy(update={"by_launch": tuple(spilling)}), target) >= predict_us(read, target)


@given(readings(), SHEETS, st.sampled_from(CLASSES), st.integers(1, 500))
def test_more_instructions_are_never_faster(read: Readings, target: Any, name: str, more: int) -> None:
    if name in ("load_global", "store_global", "float"):
        return  # More of these mean fewer turns, or more bytes in flight.
    busier = [
        launch.model_copy(update={"instructions": {**launch.instructions, name: launch.instructions[name] + more}})
        for launch in read.by_launch
    ]
    assert predict_us(read.model_copy(update={"by_launch": tuple(busier)}), target) >= predict_us(read, target)


@given(readings(), SHEETS)
def test_higher_occupancy_and_wider_loads_are_never_slower(read: Readings, target: Any) -> None:
    assert predict_us(changed(read, occupancy=1.0), target) <= predict_us(read, target)
    assert predict_us(changed(read, load_width_bytes=32), target) <= predict_us(read, target)


@given(readings(), st.sampled_from(["matrix", "float", "special"]), st.integers(0, 10**15), st.integers(1, 10**15))
def test_more_operations_are_never_faster(read: Readings, name: str, count: int, more: int) -> None:
    assert predict_us(changed(read, operations={name: count + more}), SM_90) >= predict_us(
        changed(read, operations={name: count}), SM_90
    )


@given(readings(), SHEETS)
def test_nothing_is_faster_than_its_memory_traffic(read: Readings, target: Any) -> None:
    first = read.model_copy(update={"launches": 1, "by_launch": read.by_launch[:1]})
    floor_us = (read.bytes_required or 0) / (target.dram_bytes_per_s * DRAM_SHARE) * 1e6
    assert predict_us(changed(first, bytes_moved=read.bytes_required), target) >= floor_us * 0.99


def test_a_plan_without_launches_costs_its_other_steps() -> None:
    empty = Readings(launches=0, programs=0, programs_per_sm=0, num_warps=0, bytes_required=0)
    assert predict_us(empty, SM_90) == 0.0
    assert predict_us(empty, SM_90, other_steps=2) == 2 * START_US


def test_what_a_launch_moves_goes_before_what_all_of_them_do() -> None:
    read = rmsnorm_readings()
    twice = 2 * (read.bytes_required or 0)
    moved = changed(read, bytes_moved=twice)
    assert predict_us(moved.model_copy(update={"bytes_moved": 9 * twice}), SM_90) == predict_us(moved, SM_90)
    assert predict_us(read.model_copy(update={"bytes_moved": twice}), SM_90) == predict_us(moved, SM_90)
    assert predict_us(moved, SM_90) > predict_us(read, SM_90)


def test_what_stands_in_loops_is_issued_again_and_again() -> None:
    read = changed(rmsnorm_readings(), bytes_moved=2**32, turn_bytes=2**20)
    turned = changed(read, looped=read.by_launch[0].instructions)
    assert predict_us(turned, SM_90) > 10 * predict_us(changed(read, turn_bytes=0), SM_90)
    assert predict_us(read, SM_90) < predict_us(turned, SM_90)


def test_what_loops_without_memory_is_known_by_its_operations() -> None:
    read = rmsnorm_readings()
    assert predict_us(changed(read, operations={"float": 4096 * 4096 * 200}), SM_90) > 3 * predict_us(read, SM_90)


def test_launches_take_their_time_one_by_one() -> None:
    # 4096 programs and then 64 that loop over all rows: the second launch has few programs, and many turns.
    (wide,) = changed(rmsnorm_readings(), bytes_moved=2**26).by_launch
    few = wide.model_copy(update={"programs": 64, "looped": wide.instructions, "turn_bytes": 2**18})
    both = rmsnorm_readings().model_copy(update={"launches": 2, "by_launch": (wide, few)})
    alone = [both.model_copy(update={"launches": 1, "by_launch": (launch,)}) for launch in (wide, few)]
    assert predict_us(both, SM_90) == pytest.approx(sum(predict_us(read, SM_90) for read in alone), rel=0.05)


def test_a_small_result_is_read_out_of_the_cache() -> None:
    (launch,) = changed(rmsnorm_readings(), bytes_moved=2**24, instructions={}).by_launch
    small = rmsnorm_readings().model_copy(update={"launches": 2, "bytes_required": 2**24, "by_launch": (launch,) * 2})
    once = small.model_copy(update={"launches": 1, "by_launch": (launch,)})
    assert predict_us(small, SM_90) < 2 * predict_us(once, SM_90)


def test_programs_are_started_one_after_the_other() -> None:
    # 131,072 programs of one warp took 82 us on an H200 on 2026-11-23, at 34 and at 69 MB.
    small = changed(rmsnorm_readings(), programs=131_072, num_warps=1, instructions={}, bytes_moved=34_000_000)
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
