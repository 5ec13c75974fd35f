"""A search whose last trusted worker is gone waits and says so; a rule that is met, or a person, ends it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchRecord, SearchState
from service.fleet import capabilities
from service.fleet.capabilities import Capabilities
from service.fleet.missing_workers import find_missing
from service.scheduler import stalled
from tests.service import records
from tests.service.scheduler.test_evolution import TUNABLE
from tests.service.workbench import Workbench
from workers.queue import LeaseClient

MISSING = "a worker that traces for sm_90"


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    monkeypatch.setattr(stalled, "LOOK_S", 0.0)
    monkeypatch.setattr(capabilities, "LOOK_AGAIN_S", 0.0)
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def at_its_end(bench: Workbench, **asked: object) -> SearchRecord:
    """A search that has judged everything, and whose finalists nobody is there to trace any more."""
    search = await bench.begin(evaluations=3, **asked)
    for _ in range(30):
        await bench.evolution.tick()
        worker = LeaseClient(bench.redis_url, "w", target="sm_90", device=records.DEVICE)
        worker._queues = tuple(queue for queue in worker._queues if not queue.kind.startswith("final"))
        while (lease := worker.lease(block_ms=0)) is not None:
            worker.report(lease, bench.answers.to(lease.job))
        worker.depart()
        if bench.evolution.finals.awaits(search.id):
            return await bench.store.searches.get(search.id)
    raise AssertionError("nobody is to be examined")


async def test_without_a_rule_it_waits_says_for_whom_and_ends_once_one_comes(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled, "PATIENCE_S", 0.0)
    search = await at_its_end(bench)
    for _ in range(4):
        await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.RUNNING
    found = await find_missing(Capabilities(bench.store, bench.dispatcher), bench.dispatcher, search)
    assert (found.missing, found.stuck) == ((MISSING,), True)
    assert (await bench.run(search)).state is SearchState.DONE


async def test_a_rule_that_is_met_ends_it_but_only_after_a_while(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = await at_its_end(bench, stop={"seconds": 0.5})
    for _ in range(6):
        await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.RUNNING, "a worker may come back"
    monkeypatch.setattr(stalled, "PATIENCE_S", 0.1)
    for _ in range(6):
        await bench.evolution.tick()
    ended = await bench.store.searches.get(search.id)
    assert ended.state is SearchState.STOPPED
    assert "(stop rule: 0.5 s)" in ended.reason and ended.reason.endswith(f"its open jobs waited for {MISSING}")
    await bench.evolution.tick()
    assert await bench.dispatcher.stats.queues_of(search.id) == [], "its jobs have left the queue"


async def test_a_person_may_stop_it_or_set_the_rule_afterwards(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled, "PATIENCE_S", 0.0)
    search = await at_its_end(bench)
    await bench.store.searches.change(search.id, stop={"plateau": 100})
    for _ in range(3):
        await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.RUNNING, "the rule is not met"
    await bench.store.searches.change(search.id, stop={"seconds": 0.001})
    for _ in range(3):
        await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.STOPPED
