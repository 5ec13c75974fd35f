"""What a search does at the moment, from its first job to the examination of its finalists."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from archive.records import SearchRecord, SearchState
from service.evaluation.activity import describe_activity, elapsed_s, run_until
from tests.service.measured import DEVICE, plant
from tests.service.workbench import Workbench
from workers.protocol import AnyReport, Job


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def activities(bench: Workbench, search: SearchRecord) -> list[str]:
    """Work one job at a time until the search ends, and note each new activity."""
    said: list[str] = []
    ended = (SearchState.DONE, False)
    for _ in range(400):
        search = await bench.store.searches.get(search.id)
        activity = await describe_activity(bench.store, bench.dispatcher, search)
        said += [activity] if said[-1:] != [activity] else []
        if (search.state, search.finishing) == ended:
            return said
        await asyncio.to_thread(bench.work, 1)
        await bench.evolution.tick()
    raise AssertionError(said)


async def test_each_phase_is_named_in_its_order(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, 10, 11)
    bench.devices = (DEVICE,)
    said = await activities(bench, await bench.begin(evaluations=2))
    phases = [
        "preparing the reference",
        "tracing the seed kernels",
        "evaluating the reference seed",
        "examining finalists 1 of 2",
        "examining finalists 2 of 2",
        "",
    ]
    assert [activity for activity in phases if activity in said] == phases
    places = [said.index(activity) for activity in phases]
    assert places == sorted(places), said


async def test_jobs_about_candidates_are_counted_by_what_is_done(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, 10, 11, 12)
    search = await bench.begin(evaluations=20)
    said = []
    for _ in range(4):
        await asyncio.to_thread(bench.work, 1)
        await bench.evolution.tick()
        await bench.evolution.tick()
        now = await bench.store.searches.set_state(search.id, SearchState.RUNNING)
        said.append(await describe_activity(bench.store, bench.dispatcher, now))
        await bench.store.searches.set_state(search.id, SearchState.PREPARING)
    assert said[:2] == ["tracing 3", "tracing 2, evaluating 1"]
    paused = await bench.store.searches.set_state(search.id, SearchState.PAUSED)
    assert await describe_activity(bench.store, bench.dispatcher, paused) == ""


async def test_time_goes_on_until_the_end(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    later = search.created_at + timedelta(seconds=90)
    assert elapsed_s(replace(search, state=SearchState.DONE, ended_at=later)) == 90
    assert elapsed_s(replace(search, state=SearchState.PAUSED, updated_at=later)) < 60


async def test_a_label_that_changes_later_moves_no_end(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    ended = await bench.store.searches.set_state(search.id, SearchState.STOPPED)
    labelled = await bench.store.searches.label(search.id, name="for the paper")
    assert labelled.updated_at > ended.updated_at
    assert run_until(labelled) == run_until(ended) == ended.ended_at


async def test_a_done_search_says_that_its_baselines_are_timed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, 10)
    bench.devices = (DEVICE,)
    plain = bench.answers.to

    def late(job: Job) -> AnyReport:
        bench.answers.baselines = lambda job: 1.0 if job.id.endswith("baselines") else None
        return plain(job)

    bench.answers.to = late
    said = await activities(bench, await bench.begin(evaluations=1))
    assert "examining finalists 1 of 1, timing the baselines" in said or "timing the baselines" in said, said
    assert "timing the baselines" not in " ".join(said[: said.index("evaluating the reference seed")])
