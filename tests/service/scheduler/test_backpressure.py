"""No search gets more places than it, its owner and everybody may have, nor while the queue is full."""

import pytest

from archive.records import SearchFingerprint, SearchState
from service.scheduler import backpressure
from service.scheduler.backpressure import CandidateLimits, InFlightLimits
from tests.service import records
from tests.workers.queue.samples import trace_job
from workers.protocol import Outcome, TraceReport
from workers.queue import Dispatcher, LeaseClient

LIMITS = CandidateLimits(per_search=4, per_owner=6, in_all=9)


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "LOOK_S", 0.0)


def mark(search: str, owner: str, in_flight: int) -> SearchFingerprint:
    return SearchFingerprint(search, owner, SearchState.RUNNING, records.NOW, in_flight)


async def test_the_narrowest_limit_counts(redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    places = InFlightLimits(dispatcher, LIMITS)
    await places.look([mark("a", "ann", 1), mark("b", "ann", 3), mark("c", "bob", 3)])
    ann, bob = records.search(id="a", owner="ann"), records.search(id="c", owner="bob")
    assert (places.free(ann, 1), places.free(bob, 3), places.free(bob, 0)) == (2, 1, 2)
    places.add(ann, 2)
    assert (places.free(ann, 3), places.free(bob, 3)) == (0, 0)
    await dispatcher.close()


async def test_candidates_in_flight_follow_the_workers_and_their_times(redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    places = InFlightLimits(dispatcher, CandidateLimits(None, 100, 100))
    search = records.search(devices=("h200",))
    await places.look([mark(search.id, "ann", 0)])
    assert places.free(search, 0) == 1, "no worker is there yet"
    for number in range(8):
        LeaseClient(redis_url, f"tracer-{number}", target="sm_90").announce()
    LeaseClient(redis_url, "bench", device="h200").announce()
    await places.look([mark(search.id, "ann", 0)])
    assert places.free(search, 0) == 9, "nothing is known of the times yet"
    traced = TraceReport(job="t", search=search.id, worker="w", outcome=Outcome.CORRECT, stages_s={"compile": 2.0})
    measured = records.report({}, search=search.id, stages_s={"time": 0.5})
    for _ in range(200):
        places.observe([traced, measured])
    assert places.per_search(search) == 9, "a verdict takes a quarter of a trace: 1 + 2 * 4 for one bench"
    for _ in range(200):
        places.observe([traced, measured.model_copy(update={"stages_s": {"time": 8.0}})])
    assert places.per_search(search) == 2, "the bench is the bottleneck: one waits for it, and no proposal is early"
    for _ in range(200):
        places.observe([traced, measured.model_copy(update={"stages_s": {"time": 0.02}})])
    assert places.per_search(search) == 11, "the tracers are: each has a job, and some have one to come"
    await places.look([])
    assert places.per_search(search) == 9, "an ended search leaves nothing behind"
    await dispatcher.close()


async def test_a_deep_lane_leaves_each_search_one_candidate(redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    places = InFlightLimits(dispatcher, CandidateLimits(4, 100, 100))
    for number in range(5):
        await dispatcher.submit(trace_job(f"job-{number}"))
    await places.look([])
    assert (places.free(records.search(), 0), places.free(records.search(), 1)) == (1, 0)
    LeaseClient(redis_url, "w", target="sm_90").announce()
    await places.look([])
    assert places.free(records.search(), 1) == 3
    await dispatcher.close()


async def test_nothing_is_proposed_while_reports_wait(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "REPORTS_LAG", 1)
    dispatcher, lessee = Dispatcher(redis_url), LeaseClient(redis_url, "w", target="sm_90")
    places = InFlightLimits(dispatcher, LIMITS)
    for number in range(2):
        await dispatcher.submit(trace_job(f"job-{number}"))
        lease = lessee.lease(block_ms=100)
        assert lease is not None
        lessee.report(lease, TraceReport(job=lease.job.id, search="s", worker="w", outcome=Outcome.CORRECT))
    await places.look([])
    assert places.free(records.search(), 0) == 0
    await dispatcher.acknowledge([delivery.receipt for delivery in await dispatcher.collect()])
    await places.look([])
    assert places.free(records.search(), 0) == 4
    await dispatcher.close()
