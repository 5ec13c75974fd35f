"""A search ends as soon as one of its rules is met, and says which."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from archive.records import SearchCounts, SearchState
from service.generation.stop_rules import seconds_left, stop_reason, time_over
from service.requests import StopRules
from tests.service import records
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


@pytest.fixture(autouse=True)
def tunable_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))


async def ended(bench: Workbench, stop: dict[str, Any] | None, evaluations: int = 30) -> tuple[str, int]:
    """Why a search ended, and after how many evaluations."""
    search = await bench.run(await bench.begin(evaluations=evaluations, stop=stop))
    counts = await bench.store.candidates.count(search.id)
    assert search.state is SearchState.DONE and counts.in_flight == 0
    return search.reason, counts.evaluated


async def test_without_rules_the_budget_ends_a_search(bench: Workbench) -> None:
    assert await ended(bench, None, evaluations=6) == ("", 6)


async def test_a_plateau_ends_a_search(bench: Workbench) -> None:
    reason, judged = await ended(bench, {"plateau": 5})
    assert "the best has not improved for" in reason and 6 <= judged < 20


async def test_a_speedup_that_is_reached_ends_a_search(bench: Workbench) -> None:
    reason, judged = await ended(bench, {"speedup": 0.9})
    assert "has reached 1.000 (stop rule: 0.9)" in reason and judged < 10


async def test_judging_that_took_long_enough_ends_a_search(bench: Workbench) -> None:
    plain = bench.answers.to
    slow = {"stages_s": {"check": 1.5, "time": 0.5}}
    bench.answers.to = lambda job: plain(job) if job.kind == "trace" else plain(job).model_copy(update=slow)
    reason, judged = await ended(bench, {"device_seconds": 6})
    assert "evaluations took" in reason and 3 <= judged < 15


COUNTS = SearchCounts(proposals=3, candidates=3, evaluated=1, device_ms=0)


@pytest.mark.parametrize(
    ("rule_s", "counts", "over", "left_s"),
    [
        (60, {"running_ms": 59_900, "starting_ms": 900_000}, "", 0.1),
        (60, {"running_ms": 61_000}, "it has run for 61 s since its first verdict (stop rule: 60 s)", 0.0),
        (60, {"evaluated": 0, "starting_ms": 599_000}, "", 60.0),
        (60, {"evaluated": 0, "starting_ms": 600_000}, "it had no verdict after 600 s (stop rule: 60 s", 60.0),
        (200, {"evaluated": 0, "starting_ms": 999_000}, "", 200.0),
        (200, {"evaluated": 0, "starting_ms": 1_000_000}, "it had no verdict after 1000 s (stop rule: 200 s", 200.0),
    ],
)
def test_seconds_count_from_the_first_verdict_and_before_it_they_are_bounded(
    rule_s: float, counts: dict[str, int], over: str, left_s: float
) -> None:
    search, known = records.search(stop={"seconds": rule_s}), replace(COUNTS, **counts)
    told = time_over(search, known)
    assert told.startswith(over) and bool(told) is bool(over)
    assert seconds_left(search, known) == pytest.approx(left_s)


def test_without_the_rule_no_time_is_over_or_left() -> None:
    for stop in (None, {"plateau": 5}):
        search, known = records.search(stop=stop), replace(COUNTS, running_ms=10**9)
        assert (time_over(search, known), seconds_left(search, known)) == ("", None)


async def test_time_that_is_over_ends_a_search(bench: Workbench) -> None:
    search = await bench.begin(evaluations=30, stop={"seconds": 60})
    for _ in range(6):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
    assert (await bench.store.candidates.count(search.id)).evaluated > 0
    assert await stop_reason(bench.store, search) == ""
    await bench.store.searches.count_time([search.id], 61_000)
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE and "since its first verdict (stop rule: 60 s)" in ended.reason
    assert (await bench.store.candidates.count(search.id)).evaluated < 30


@pytest.mark.parametrize("rules", [{"plateau": 0}, {"seconds": -1}, {"speedup": float("inf")}, {"luck": 7}])
def test_rules_that_cannot_be_met_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StopRules.model_validate(rules)
