"""Calls of a race that mind their own business, and calls that do not: who is refused, and what stops them."""

from math import exp, inf

import pytest

from tests.workers.devices import raced as stage
from tests.workers.devices.raced import Machine, bundle_of, kernel, raced, timing_of
from tests.workers.devices.thieves import (
    Defers,
    DefersSingleCalls,
    DefersToTheEnd,
    HoldsACell,
    LeavesResultsInScratch,
    PutsDecoysBack,
    ReadsTheTable,
    Steals,
    WorksInPlace,
    bundle_in_place,
    in_place,
)
from workers.devices.ending import JudgementEnded
from workers.oracle.isolation import LATE, UNCALLED
from workers.protocol import Outcome

SLOW_US = 250.0
"""A kernel that is called once a sample."""
MISDEEDS = {LATE, UNCALLED}
ENDS_TRUNCATED = 21
"""Seed of a race whose last samples are two truncated ones, of fewer calls together than a whole one."""


def refused(trial, single_us: float = stage.QUICK_US, *, untrusted: bool = False) -> str:
    with pytest.raises(JudgementEnded) as caught:
        timing_of(trial, single_us, untrusted=untrusted)
    assert caught.value.found["outcome"] is Outcome.OUT_OF_BOUNDS
    return caught.value.found["reason"]


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize(("single_us", "calls"), [(stage.QUICK_US, 6), (SLOW_US, 1)])
def test_calls_that_mind_their_own_business_are_timed(single_us: float, calls: int, untrusted: bool) -> None:
    with raced() as (trial, _):
        found = timing_of(trial, single_us, untrusted=untrusted)
    assert found.calls == calls and exp(found.slowdown.mean) == pytest.approx(1.0)


@pytest.mark.parametrize("thief", [Steals, Defers, DefersToTheEnd, PutsDecoysBack, ReadsTheTable])
def test_calls_that_do_not_are_refused(thief: type[Machine]) -> None:
    with raced(thief) as (trial, machine):
        assert refused(trial) in MISDEEDS and machine.amiss > 0


def test_work_that_is_left_to_calls_that_never_come_is_missing() -> None:
    with raced(Defers, seed=ENDS_TRUNCATED) as (trial, machine), pytest.raises(JudgementEnded) as caught:
        timing_of(trial)
    assert caught.value.found["outcome"] is Outcome.WRONG_RESULT and machine.amiss > 0


def test_lone_calls_that_leave_their_work_to_a_later_sample_are_refused() -> None:
    with raced(DefersSingleCalls) as (trial, machine):
        assert refused(trial, SLOW_US) == LATE and machine.amiss > 0


def test_work_for_others_that_is_left_in_scratch_is_refused() -> None:
    def bundle(_):
        return bundle_of(kernel(num_warps=8, global_scratch_bytes=stage.SIZE // 3 + 16))

    with raced(LeavesResultsInScratch, bundle=bundle) as (trial, machine):
        assert refused(trial) == UNCALLED and machine.amiss > 0


def test_work_for_others_in_place_of_their_inputs_is_refused() -> None:
    with raced(WorksInPlace, in_place(), bundle_in_place) as (trial, machine):
        assert refused(trial) == UNCALLED and machine.amiss > 0


def test_who_holds_a_cell_is_watched_as_a_challenger_is() -> None:
    with raced(HoldsACell) as (trial, machine):
        refused(trial, untrusted=True)
    assert machine.amiss > 0


@pytest.mark.parametrize("thief", [DefersToTheEnd, PutsDecoysBack])
def test_without_feints_seals_tell_who_changes_results_later(monkeypatch, thief: type[Machine]) -> None:
    monkeypatch.setattr("workers.devices.paired_timing.PAIRS_PER_TRUNCATED", inf)
    with raced(thief) as (trial, machine):
        assert refused(trial) == LATE and machine.amiss > 0


@pytest.mark.parametrize(
    ("thief", "missing"), [(Steals, ("CALLS_PER_DECOY", "PAIRS_PER_TRUNCATED")), (Defers, ("PAIRS_PER_TRUNCATED",))]
)
def test_without_what_stops_them_they_would_pass_and_be_faster(monkeypatch, thief, missing) -> None:
    for name in missing:
        monkeypatch.setattr(f"workers.devices.paired_timing.{name}", inf)
    with raced(thief) as (trial, machine):
        found = timing_of(trial)
    assert machine.amiss > 0 and exp(found.slowdown.mean) < 0.5
