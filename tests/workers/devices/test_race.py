"""How a round is laid out, what a race says, and when a time is not believed."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import exp, inf
from random import Random
from types import SimpleNamespace

import pytest

from tests.workers.devices.desk import opened_desk, trial_at
from tests.workers.devices.kernels import PLAIN, job_for
from tests.workers.devices.thief import race_of, raced
from workers.checker.examiner import UNCALLED
from workers.devices.crew import CardFailed
from workers.devices.measurement import inverse
from workers.devices.race import (
    HOPELESS,
    LOOK_CONFIDENCE,
    MAX_CALLS,
    PACER_STREAMS,
    STAGES,
    Pace,
    Race,
    Track,
    check_clocks,
    pair_up,
    reject_below_floor,
    scatter,
    slots_of,
)
from workers.devices.trial import benchmarks, room_for
from workers.devices.verdict import Ended
from workers.orders import Round, Side, Slot, Timed
from workers.protocol import PRACTICAL_MARGIN, Outcome


@pytest.mark.parametrize("stranger", [False, True])
@pytest.mark.parametrize(("pairs", "calls"), [(1, 1), (8, 1), (4, 7), (2, 64)])
def test_no_slot_is_used_twice_and_the_candidate_never_meets_content_again(
    pairs: int, calls: int, stranger: bool
) -> None:
    samples = pair_up(pairs, calls, 5, Random(3), stranger=stranger)
    assert len(samples) == 2 * pairs
    for side in Side:
        used = [slot for sample in samples if sample.side is side for slot in sample.filled]
        assert sorted(used) == list(range(pairs * slots_of(side, calls)))
    given = {side: [n for sample in samples if sample.side is side for n in sample.streams] for side in Side}
    assert sorted(given[Side.CANDIDATE]) == list(range(5, 5 + pairs * slots_of(Side.CANDIDATE, calls)))
    assert not set(given[Side.CANDIDATE]) & set(given[Side.PACER])
    for sample in samples:
        assert len(sample.slots) == calls and len(set(sample.streams)) == len(sample.filled)


def test_a_candidates_sample_of_several_calls_has_decoys_and_a_pacers_has_none() -> None:
    for calls, decoys in ((1, 0), (2, 1), (4, 1), (5, 2), (64, 16)):
        for sample in pair_up(3, calls, 0, Random(3)):
            assert len(sample.decoys) == (decoys if sample.side is Side.CANDIDATE else 0)


def test_decoys_are_drawn_anew_for_every_round() -> None:
    random, last = Random(3), set()
    for first in range(0, 2000, 10):
        sample = next(each for each in pair_up(1, 8, first, random) if each.side is Side.CANDIDATE)
        assert sorted(sample.filled) == list(range(10)) and sample.streams == tuple(range(first, first + 10))
        last |= set(sample.decoys)
    assert last == set(range(10))


def test_a_pacer_that_is_no_stranger_meets_contents_again_and_a_stranger_never_does() -> None:
    given = {
        stranger: [
            stream
            for first in (0, 60)
            for sample in pair_up(12, 5, first, Random(3), stranger=stranger)
            if sample.side is Side.PACER
            for stream in sample.streams
        ]
        for stranger in (False, True)
    }
    assert len(set(given[False])) == PACER_STREAMS and len(set(given[True])) == len(given[True]) == 120


def test_slots_are_used_in_no_order() -> None:
    slots = [Slot(start=at, end=at + 1, buffers=(at,), scratch=(), zones=()) for at in range(100)]
    scattered = [slot.start for slot in scatter(slots, Random(5))]
    assert sorted(scattered) == list(range(100))
    assert sum(after == before + 1 for before, after in pairwise(scattered)) < 8


def test_who_goes_first_is_drawn() -> None:
    firsts = [sample.side for sample in pair_up(200, 1, 0, Random(4))[::2]]
    assert 70 < firsts.count(Side.PACER) < 130


def test_a_race_says_how_much_slower_the_candidate_is() -> None:
    race = Race("N=8", candidate_us=(22.0, 21.0, 23.0, 22.0, 22.5), pacer_us=(20.0,) * 5, calls=5)
    low, mid, high = race.slowdown.bounds()
    assert low < 1.1 < high and mid == pytest.approx(exp(race.slowdown.mean))


def test_only_who_is_surely_far_behind_is_hopeless() -> None:
    assert Race("N=8", (40.0, 41.0, 40.0, 39.5), (20.0,) * 4, 5).is_hopeless()
    assert not Race("N=8", (40.0, 20.0, 60.0, 39.5), (20.0,) * 4, 5).is_hopeless()
    assert not Race("N=8", (29.9, 29.0, 29.5, 29.2), (20.0,) * 4, 5).is_hopeless()


def test_looking_at_every_stage_condemns_no_more_than_one_in_twenty() -> None:
    random = Random(9)
    condemned = 0
    for _ in range(400):
        times = [20.0 * HOPELESS * exp(random.gauss(0.0, 0.03)) for _ in range(64)]
        condemned += any(Race("N=8", tuple(times[:n]), (20.0,) * n, 5).is_hopeless() for n in STAGES if n <= 64)
    assert condemned / 400 <= 0.05


def noisy(random: Random, factor: float, pairs: int = 64) -> Race:
    times = [20.0 * factor * exp(random.gauss(0.0, 0.02)) for _ in range(pairs)]
    return Race("N=8", tuple(times), (20.0,) * pairs, 5)


def first(race: Race, pairs: int) -> Race:
    return Race(race.shape, race.candidate_us[:pairs], race.pacer_us[:pairs], race.calls)


@pytest.mark.parametrize(("factor", "decided"), [(0.9, True), (1.1, True), (0.995, False), (1 / 1.005, False)])
def test_a_contest_is_decided_where_it_is_clear_who_is_faster_by_the_margin(factor: float, decided: bool) -> None:
    assert noisy(Random(3), factor).is_decided() is decided


def test_equal_kernels_are_not_taken_for_faster_ones_by_looking_at_every_stage() -> None:
    random, taken = Random(11), 0
    for _ in range(400):
        race = noisy(random, 1 / (1 + PRACTICAL_MARGIN))
        looks = (first(race, pairs) for pairs in STAGES if pairs <= 64)
        ended = next((look for look in looks if look.is_decided()), race)
        taken += inverse(ended.slowdown).bounds(LOOK_CONFIDENCE)[0] > 1 + PRACTICAL_MARGIN
    assert taken / 400 <= 0.025


def test_a_round_cannot_be_shorter_than_its_samples() -> None:
    order = Round(plans={}, slots={}, samples=pair_up(1, 2, 0, Random(5)), seed="00")
    check_clocks(order, Timed(samples_us=(10.0, 20.0), wall_us=60.0))
    with pytest.raises(CardFailed, match="60 us of a round that took 59 us"):
        check_clocks(order, Timed(samples_us=(10.0, 20.0), wall_us=59.0))


def test_a_time_below_the_floor_is_not_believed() -> None:
    race = Race("N=8", (9.0,) * 8, (20.0,) * 8, 5)
    with pytest.raises(Ended) as caught:
        reject_below_floor(race, 9.0, floor_us=10.0)
    assert caught.value.found["outcome"] is Outcome.BELOW_FLOOR
    reject_below_floor(race, 9.6, floor_us=10.0)


def test_who_is_known_to_be_quick_is_called_several_times_from_the_first_round_on() -> None:
    bundle = job_for(PLAIN).bundle
    trial = SimpleNamespace(bundles=dict.fromkeys(Side, bundle), seed=str, crew=SimpleNamespace(arena_bytes=2**34))
    plans = dict.fromkeys(Side, next(index for index, _ in benchmarks(bundle)))
    known = [Track(trial, plans, Pace(single_us))._calls() for single_us in (20.0, 19.9, 250.0, 0.1)]
    assert known == [5, 6, 1, MAX_CALLS]
    room = Track(trial, plans, Pace())._room
    trial.crew.arena_bytes = 2**20 + sum(slots_of(side, 2) * room[side] for side in Side)
    assert Track(trial, plans, Pace(20.0))._calls() == 2


class Unhurried(Track):
    """Every call takes 250 us, since there is no card."""

    def _round(self, pairs: int, calls: int, slots: Mapping[Side, tuple[Slot, ...]]) -> dict[Side, list[float]]:
        assert all(len(places) >= pairs * calls for places in slots.values())
        return {side: [250.0] * pairs for side in Side}


def test_a_race_needs_no_more_room_than_one_run_of_either_side() -> None:
    with opened_desk() as crew:
        needed = room_for(*trial_at(crew).bundles.values())
        trial = trial_at(replace(crew, memory=crew.memory[:needed]))
        pace = Pace()
        assert len(Unhurried(trial, dict.fromkeys(Side, 0), pace).race(4).pacer_us) == 4
        assert pace.single_us == 250.0


def test_the_places_of_a_race_are_memory_that_is_taken() -> None:
    with opened_desk() as crew:
        trial = trial_at(crew)
        slots = Track(trial, dict.fromkeys(Side, 0), Pace())._lay_out(3, 2)
        places = [slot for each in slots.values() for slot in each]
        first, end = min(slot.start for slot in places), max(slot.end for slot in places)
        crew.memory[first:end] = 7
        trial.check_idle()
        crew.memory[end] = 7
        with pytest.raises(Ended, match="far from its buffers"):
            trial.check_idle()


def test_calls_that_mind_their_own_business_are_timed_and_leave_decoys_alone() -> None:
    with raced(steals=False) as (trial, machine):
        found = race_of(trial)
        trial.check_idle()
    assert (found.calls, machine.stolen) == (6, 0) and exp(found.slowdown.mean) == pytest.approx(1.0)


def test_a_call_that_does_all_that_is_due_does_what_never_comes() -> None:
    with raced(steals=True) as (trial, machine), pytest.raises(Ended) as caught:
        race_of(trial)
    assert machine.stolen > 0
    assert caught.value.found["outcome"] is Outcome.OUT_OF_BOUNDS and caught.value.found["reason"] == UNCALLED


def test_without_decoys_it_would_pass_and_be_faster(monkeypatch) -> None:
    monkeypatch.setattr("workers.devices.race.CALLS_A_DECOY", inf)
    with raced(steals=True) as (trial, machine):
        found = race_of(trial)
        trial.check_idle()
    assert machine.stolen > 0 and exp(found.slowdown.mean) < 0.5
