"""How a round is laid out, what a race says, and when a time is not believed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.devices.desk import opened_desk, trial_at
from tests.workers.devices.kernels import PLAIN, job_for
from workers.commands import (
    ExamineRound,
    PairSide,
    RunSlot,
    TimedRound,
    TimedSample,
    TimingRound,
)
from workers.devices.card_processes import CardFailed
from workers.devices.ending import JudgementEnded
from workers.devices.measurement import inverse
from workers.devices.paired_timing import (
    HOPELESS,
    LONG_US,
    LONG_WARM_PAIRS,
    LOOK_CONFIDENCE,
    MAX_CALLS,
    PACER_STREAMS,
    PAIRS_PER_LONG_ROUND,
    REST_S,
    STAGES,
    CallTime,
    PairedTimer,
    PairedTimes,
    SamplePair,
    check_clocks,
    check_cycles,
    pair_up,
    punctual,
    reject_below_floor,
    scatter,
    slots_of,
    truncated_of,
)
from workers.devices.trial import benchmarks, room_for
from workers.protocol import PRACTICAL_MARGIN, Outcome

MINE, BOTH = (PairSide.CANDIDATE,), tuple(PairSide)


def samples_of(samples: Sequence[TimedSample], side: PairSide) -> list[TimedSample]:
    return [sample for sample in samples if sample.side is side]


@pytest.mark.parametrize("untrusted_sides", [MINE, BOTH])
@pytest.mark.parametrize(("pairs", "calls"), [(1, 1), (8, 1), (4, 7), (2, 64)])
def test_no_slot_is_used_twice_and_the_candidate_never_meets_content_again(
    pairs: int, calls: int, untrusted_sides: tuple[PairSide, ...]
) -> None:
    samples = pair_up(pairs, calls, 5, Random(3), untrusted_sides)
    own = (pairs + truncated_of(pairs, calls)) * slots_of(calls)
    for side in PairSide:
        used = [slot for sample in samples_of(samples, side) for slot in sample.filled]
        assert sorted(used) == list(range(own if side in untrusted_sides else pairs * calls))
    given = {side: [n for sample in samples_of(samples, side) for n in sample.streams] for side in PairSide}
    assert sorted(given[PairSide.CANDIDATE]) == list(range(5, 5 + own))
    assert not set(given[PairSide.CANDIDATE]) & set(given[PairSide.PACER])
    for sample in samples:
        assert len(set(sample.streams)) == len(sample.filled)


@pytest.mark.parametrize(("calls", "decoys", "truncated"), [(1, 0, 0), (2, 1, 3), (4, 1, 3), (5, 2, 3), (64, 16, 3)])
@pytest.mark.parametrize("untrusted_sides", [MINE, BOTH])
def test_samples_of_strangers_have_decoys_and_feints_between_them(
    untrusted_sides: tuple[PairSide, ...], calls: int, decoys: int, truncated: int
) -> None:
    samples = pair_up(12, calls, 0, Random(3), untrusted_sides)
    for side in PairSide:
        whole = [sample for sample in samples_of(samples, side) if len(sample.slots) == calls]
        short = [sample for sample in samples_of(samples, side) if 0 < len(sample.slots) < calls]
        assert (len(whole), len(short)) == (12, truncated if side in untrusted_sides else 0)
        assert {len(sample.decoys) for sample in whole} == {decoys if side in untrusted_sides else 0}
        assert {len(sample.filled) for sample in short} <= {calls + decoys}


def test_decoys_are_drawn_anew_for_every_round_and_so_is_where_feints_stand_and_end() -> None:
    random, places, ends, last = Random(3), set(), set(), set()
    for first in range(0, 2000, 20):
        samples = samples_of(pair_up(1, 8, first, random), PairSide.CANDIDATE)
        place = next(index for index, sample in enumerate(samples) if len(sample.slots) < 8)
        places, ends = places | {place}, ends | {len(samples[place].slots)}
        last |= set(samples[1 - place].decoys)
    assert places == {0, 1} and ends == set(range(1, 8)) and last == set(range(10))


def test_pairs_stay_together_whatever_stands_between_them() -> None:
    whole = [sample for sample in pair_up(12, 5, 0, Random(3)) if len(sample.slots) == 5]
    assert all({one.side, other.side} == set(PairSide) for one, other in zip(whole[::2], whole[1::2], strict=True))


def test_a_pacer_that_is_no_stranger_meets_contents_again_and_a_stranger_never_does() -> None:
    given = {
        untrusted_sides: [
            stream
            for first in (0, 105)
            for sample in samples_of(pair_up(12, 5, first, Random(3), untrusted_sides), PairSide.PACER)
            for stream in sample.streams
        ]
        for untrusted_sides in (MINE, BOTH)
    }
    assert len(set(given[MINE])) == PACER_STREAMS and len(set(given[BOTH])) == len(given[BOTH]) == 210


def test_slots_are_used_in_no_order() -> None:
    slots = [RunSlot(start=at, end=at + 1, buffers=(at,), scratch=(), zones=()) for at in range(100)]
    scattered = [slot.start for slot in scatter(slots, Random(5))]
    assert sorted(scattered) == list(range(100))
    assert sum(after == before + 1 for before, after in pairwise(scattered)) < 8


def test_who_goes_first_is_drawn() -> None:
    firsts = [sample.side for sample in pair_up(200, 1, 0, Random(4))[::2]]
    assert 70 < firsts.count(PairSide.PACER) < 130


def test_a_few_pairs_are_balanced_if_a_side_leads() -> None:
    mine, its = PairSide.CANDIDATE, PairSide.PACER
    sides = [sample.side for sample in pair_up(4, 1, 0, Random(4), leading=its)]
    assert sides == [its, mine, mine, its, its, mine, mine, its]


def test_a_race_says_how_much_slower_the_candidate_is() -> None:
    timing = PairedTimes("N=8", candidate_us=(22.0, 21.0, 23.0, 22.0, 22.5), pacer_us=(20.0,) * 5, calls=5)
    low, mid, high = timing.slowdown.bounds()
    assert low < 1.1 < high and mid == pytest.approx(exp(timing.slowdown.mean))


def test_only_who_is_surely_far_behind_is_hopeless() -> None:
    assert PairedTimes("N=8", (40.0, 41.0, 40.0, 39.5), (20.0,) * 4, 5).is_hopeless()
    assert not PairedTimes("N=8", (40.0, 20.0, 60.0, 39.5), (20.0,) * 4, 5).is_hopeless()
    assert not PairedTimes("N=8", (29.9, 29.0, 29.5, 29.2), (20.0,) * 4, 5).is_hopeless()


def test_looking_at_every_stage_condemns_no_more_than_one_in_twenty() -> None:
    random = Random(9)
    condemned = 0
    for _ in range(400):
        times = [20.0 * HOPELESS * exp(random.gauss(0.0, 0.03)) for _ in range(64)]
        condemned += any(PairedTimes("N=8", tuple(times[:n]), (20.0,) * n, 5).is_hopeless() for n in STAGES if n <= 64)
    assert condemned / 400 <= 0.05


def noisy(random: Random, factor: float, pairs: int = 64) -> PairedTimes:
    times = [20.0 * factor * exp(random.gauss(0.0, 0.02)) for _ in range(pairs)]
    return PairedTimes("N=8", tuple(times), (20.0,) * pairs, 5)


def first(timing: PairedTimes, pairs: int) -> PairedTimes:
    return PairedTimes(timing.shape, timing.candidate_us[:pairs], timing.pacer_us[:pairs], timing.calls)


@pytest.mark.parametrize(("factor", "decided"), [(0.9, True), (1.1, True), (0.995, False), (1 / 1.005, False)])
def test_a_contest_is_decided_where_it_is_clear_who_is_faster_by_the_margin(factor: float, decided: bool) -> None:
    assert noisy(Random(3), factor, pairs=63).is_decided() is decided


def test_a_contest_goes_on_beyond_64_pairs_for_who_seems_to_be_faster() -> None:
    def swaying(factor: float, pairs: int) -> PairedTimes:
        return PairedTimes("N=8", (20.0 * factor * 1.013, 20.0 * factor / 1.013) * (pairs // 2), (20.0,) * pairs, 5)

    assert [swaying(1.0, pairs).is_decided() for pairs in (16, 64)] == [False, True]
    assert [swaying(0.991, pairs).is_decided() for pairs in (16, 64, 256)] == [False, False, True]


def test_equal_kernels_are_not_taken_for_faster_ones_by_looking_at_every_stage() -> None:
    random, taken = Random(11), 0
    for _ in range(400):
        timing = noisy(random, 1 / (1 + PRACTICAL_MARGIN), STAGES[-1])
        looks = (first(timing, pairs) for pairs in STAGES)
        ended = next((look for look in looks if look.is_decided()), timing)
        taken += inverse(ended.slowdown).bounds(LOOK_CONFIDENCE)[0] > 1 + PRACTICAL_MARGIN
    assert taken / 400 <= 0.025


@pytest.mark.parametrize("clock_mhz", [1980.0, 1980 * 0.971, 1980 * 1.03])
def test_pairs_at_one_clock_count(clock_mhz: float) -> None:
    assert SamplePair(20.0, 20.0, clock_mhz, 1980.0).is_steady and SamplePair(20.0, 20.0, 1980.0, clock_mhz).is_steady


def test_a_pair_over_which_the_clock_moved_does_not_count() -> None:
    assert not SamplePair(20.0, 20.0, 1980.0, 1900.0).is_steady and not SamplePair(20.0, 20.0, 1900.0, 1980.0).is_steady


def test_a_pair_of_which_one_waited_for_the_host_does_not_count() -> None:
    assert not SamplePair(20.0, 20.0, 1980.0, 1980.0, is_punctual=False).is_steady


def test_who_is_faster_in_time_alone_is_not_believed() -> None:
    fast = PairedTimes("N=8", (19.0,) * 8, (20.0,) * 8, 5, (1980.0,) * 8, (1980.0,) * 8)
    check_cycles(fast)
    check_cycles(replace(fast, candidate_us=(20.0,) * 8, candidate_mhz=(2090.0,) * 8))
    with pytest.raises(CardFailed, match=r"0\.9500 of the time and 1\.0028 of the cycles"):
        check_cycles(replace(fast, candidate_mhz=(2090.0,) * 8))


def test_a_time_below_the_floor_is_not_believed() -> None:
    timing = PairedTimes("N=8", (9.0,) * 8, (20.0,) * 8, 5)
    with pytest.raises(JudgementEnded) as caught:
        reject_below_floor(timing, 9.0, floor_us=10.0)
    assert caught.value.found["outcome"] is Outcome.BELOW_FLOOR
    reject_below_floor(timing, 9.6, floor_us=10.0)


def test_who_is_known_to_be_quick_is_called_several_times_from_the_first_round_on() -> None:
    bundle = job_for(PLAIN).bundle
    trial = SimpleNamespace(
        bundles=dict.fromkeys(PairSide, bundle), seed=str, processes=SimpleNamespace(arena_bytes=2**34)
    )
    plans = dict.fromkeys(PairSide, next(index for index, _ in benchmarks(bundle)))
    known = [PairedTimer(trial, plans, CallTime(single_us))._calls() for single_us in (20.0, 19.9, 250.0, 0.1)]
    assert known == [5, 6, 1, MAX_CALLS]
    room = PairedTimer(trial, plans, CallTime())._room
    trial.processes.arena_bytes = 2**20 + 2 * slots_of(2) * room[PairSide.CANDIDATE] + 2 * room[PairSide.PACER]
    assert PairedTimer(trial, plans, CallTime(20.0))._calls() == 2


class Unhurried(PairedTimer):
    """Every call takes 250 us, since there is no card."""

    def _round(self, pairs: int, calls: int, slots: Mapping[PairSide, tuple[RunSlot, ...]]) -> list[SamplePair]:
        assert all(len(places) >= pairs * calls for places in slots.values())
        return [SamplePair(250.0, 250.0, 1980.0, 1980.0)] * pairs


def test_a_long_call_takes_a_quarter_of_the_pairs_and_the_card_rests() -> None:
    with opened_desk() as processes:
        timers = [
            Unhurried(trial_at(processes), dict.fromkeys(PairSide, 0), CallTime(us)) for us in (LONG_US - 1, LONG_US)
        ]
        assert [len(timer.time(pairs).pacer_us) for timer in timers for pairs in (4, 16, 256)] == [4, 16, 256, 4, 4, 64]
        assert [timer._rest_s for timer in timers] == [0.0, REST_S]


class Led(PairedTimer):
    """Notes which side led each pair; there is no card."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.led: list[PairSide] = []

    def _pairs_that_fit(self, wanted: int, calls: int) -> int:
        return 1

    def _look_at(self, order: ExamineRound) -> None:
        self.led += [sample.side for sample in order.round.samples[::2]]


def test_the_sides_of_a_long_call_lead_in_turn_whatever_fits_a_round() -> None:
    with opened_desk() as processes:
        timer = Led(trial_at(processes), dict.fromkeys(PairSide, 0), CallTime(LONG_US))
        timer.time(16)
        assert len(timer.led) == 4 + LONG_WARM_PAIRS
        assert all(before is not after for before, after in pairwise(timer.led))


class Placed(Unhurried):
    """Notes where a side's calls were, round by round."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.places: list[tuple[RunSlot, ...]] = []

    def _round(self, pairs: int, calls: int, slots: Mapping[PairSide, tuple[RunSlot, ...]]) -> list[SamplePair]:
        assert pairs <= PAIRS_PER_LONG_ROUND and slots[PairSide.CANDIDATE] != slots[PairSide.PACER]
        self.places.append(slots[PairSide.CANDIDATE])
        return super()._round(pairs, calls, slots)


def test_the_sides_of_a_long_call_exchange_their_places_after_each_round_if_they_fit() -> None:
    with opened_desk() as processes:
        trial = trial_at(processes)
        timer = Placed(trial, dict.fromkeys(PairSide, 0), CallTime(LONG_US))
        timer.time(16)
        first, second, third = timer.places
        assert first == third != second
        pacer = trial.bundles[PairSide.PACER]
        plan = pacer.plans[0]
        larger = plan.buffers[-1].model_copy(update={"bytes": plan.buffers[-1].bytes + 1024})
        plan = plan.model_copy(update={"buffers": (*plan.buffers[:-1], larger)})
        trial.bundles = {**trial.bundles, PairSide.PACER: pacer.model_copy(update={"plans": (plan,)})}
        timer = Placed(trial, dict.fromkeys(PairSide, 0), CallTime(LONG_US))
        timer.time(16)
        assert len(set(timer.places)) == 1


class Restless(Unhurried):
    """Every other pair has the clock move between its samples."""

    share = 2

    def _round(self, pairs: int, calls: int, slots: Mapping[PairSide, tuple[RunSlot, ...]]) -> list[SamplePair]:
        found = super()._round(pairs, calls, slots)
        return [replace(pair, pacer_mhz=1500.0) if number % self.share else pair for number, pair in enumerate(found)]


class Adrift(Restless):
    """Nearly all have."""

    share = 12


def test_a_race_needs_no_more_room_than_one_run_of_either_side() -> None:
    with opened_desk() as processes:
        needed = room_for(*trial_at(processes).bundles.values())
        trial = trial_at(replace(processes, memory=processes.memory[:needed]))
        call_time = CallTime()
        assert len(Unhurried(trial, dict.fromkeys(PairSide, 0), call_time).time(4).pacer_us) == 4
        assert call_time.single_us == 250.0


def test_pairs_over_which_the_clock_moved_are_taken_again() -> None:
    with opened_desk() as processes:
        timing = Restless(trial_at(processes), dict.fromkeys(PairSide, 0), CallTime()).time(16)
        assert timing.candidate_mhz == timing.pacer_mhz == (1980.0,) * 16
        with pytest.raises(CardFailed, match="moved by more than 3%"):
            Adrift(trial_at(processes), dict.fromkeys(PairSide, 0), CallTime()).time(16)


def test_the_places_of_a_race_are_memory_that_is_taken() -> None:
    with opened_desk() as processes:
        trial = trial_at(processes)
        slots = PairedTimer(trial, dict.fromkeys(PairSide, 0), CallTime())._lay_out(3, 2)
        places = [slot for each in slots.values() for slot in each]
        first, end = min(slot.start for slot in places), max(slot.end for slot in places)
        processes.memory[first:end] = 7
        trial.check_idle()
        processes.memory[end] = 7
        with pytest.raises(JudgementEnded, match="far from its buffers"):
            trial.check_idle()


TIMED = TimedRound(
    samples_us=(100.0,) * 6,
    wall_us=3900.0,
    starts_us=tuple(600.0 * number for number in range(6)),
    holds_us=tuple(601.0 * number for number in range(6)),
    checksums=(0,) * 6,
    clocks_mhz=(1980.0,) * 6,
)
ORDER = TimingRound(plans={}, slots={}, samples=pair_up(3, 1, 0, Random(5), ()), seed="00")


def slower(share: float) -> tuple[float, ...]:
    """Starts by events whose clock is slower than the timer."""
    return tuple(start_us * (1 - share) for start_us in TIMED.holds_us)


def late(number: int, by_us: float) -> TimedRound:
    """The host was kept from queueing a sample; what came before and after lies as it would, and events count anew."""
    starts_us = [start_us + by_us * (index == number) for index, start_us in enumerate(TIMED.starts_us)]
    return TIMED.model_copy(update={"starts_us": tuple(start_us - starts_us[0] for start_us in starts_us)})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wall_us": 3000.0}, "3005 us of a round that took 3000 us"),
        ({"wall_us": 3500.0, "samples_us": (600.0,) * 6}, "3600 us of a round that took 3500 us"),
        ({"starts_us": slower(0.02)}, "events say 2945 us of what took 3005 us"),
        ({"starts_us": slower(-0.02)}, "events say 3065 us of what took 3005 us"),
        ({"starts_us": slower(0.03)}, "events say 2915 us of what took 3005 us"),
        ({"starts_us": slower(0.5)}, "events say 1502 us of what took 3005 us"),
        ({"holds_us": (0.0,) * 6}, "stand still"),
        ({"clocks_mhz": (*[1980.0] * 5, 0.0)}, "stand still"),
    ],
)
def test_three_clocks_agree_over_a_round(change: dict[str, object], why: str) -> None:
    assert check_clocks(ORDER, TIMED) == pytest.approx(3900 * 5 / (6 * 3005))
    with pytest.raises(CardFailed, match=why):
        check_clocks(ORDER, TIMED.model_copy(update=change))


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("by_us", [100.0, 7000.0])
def test_a_sample_that_the_host_queued_late_tells_nothing_and_does_not_count(number: int, by_us: float) -> None:
    timed = late(number, by_us)
    assert check_clocks(ORDER, timed) == check_clocks(ORDER, TIMED)
    assert punctual(timed) == [index != number for index in range(6)]
