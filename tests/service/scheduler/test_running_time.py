"""Running time: counted while a coordinator runs a search, before and after its first verdict, and never in a pause."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchState
from service.scheduler import running_time
from service.scheduler.running_time import RunningTime
from tests.service.workbench import Workbench


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(running_time, "BEAT_S", 0.0)
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def times_ms(bench: Workbench, search: str) -> tuple[int, int]:
    """Time before the first verdict, and since."""
    counts = await bench.store.candidates.count(search)
    return counts.starting_ms, counts.running_ms


async def test_time_counts_once_a_beat_for_the_searches_that_run(bench: Workbench) -> None:
    mine = await bench.begin(evaluations=9)
    clock = RunningTime(bench.store)
    await asyncio.sleep(0.05)
    await clock.count([mine.id])
    first_ms, running_ms = await times_ms(bench, mine.id)
    assert 50 <= first_ms < 1000 and running_ms == 0
    await clock.count([])
    await asyncio.sleep(0.05)
    assert (await times_ms(bench, mine.id))[0] == first_ms


async def test_time_in_a_pause_does_not_count_and_a_restart_goes_on(
    bench: Workbench, tmp_path: Path, redis_url: str
) -> None:
    search = await bench.begin(evaluations=200)
    for _ in range(5):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
    starting_ms, running_ms = await times_ms(bench, search.id)
    assert starting_ms > 0 and running_ms > 0
    await bench.store.searches.set_state(search.id, SearchState.PAUSED)
    await bench.evolution.tick()
    paused = await times_ms(bench, search.id)
    await asyncio.sleep(0.3)
    for _ in range(3):
        await bench.evolution.tick()
    assert await times_ms(bench, search.id) == paused, "a paused search does not run"
    await bench.store.searches.set_state(search.id, SearchState.RUNNING)
    restarted = await Workbench.open(tmp_path, redis_url)
    await asyncio.sleep(0.3)
    await restarted.evolution.sweep(await restarted.store.searches.get(search.id))
    await restarted.evolution.tick()
    again = await times_ms(restarted, search.id)
    await restarted.close()
    assert again[0] == paused[0] == starting_ms, "after the first verdict it no longer starts"
    assert paused[1] < again[1]


async def test_a_beat_that_is_not_over_writes_nothing(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_time, "BEAT_S", 60.0)
    search = await bench.begin(evaluations=9)
    clock = RunningTime(bench.store)
    await asyncio.sleep(0.02)
    await clock.count([search.id])
    assert await times_ms(bench, search.id) == (0, 0)
