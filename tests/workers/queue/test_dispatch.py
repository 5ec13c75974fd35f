"""Dispatching: what is sent once, what comes back until it is acknowledged, what survives."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from service.embedded import EmbeddedServer
from tests.workers.queue.samples import DEVICE, measure_job, report_on, trace_job
from workers.errors import QueueUnavailable
from workers.protocol import PROTOCOL_VERSION, TraceReport
from workers.queue import Dispatcher, LeaseClient


@pytest.fixture
async def dispatcher(redis_url: str) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(redis_url, redeliver_ms=300)
    yield dispatcher
    await dispatcher.close()


def work(url: str, worker: str = "w", *, most: int = 100) -> list[str]:
    """Answer what is queued; returns the jobs."""
    lessee = LeaseClient(url, worker, target="sm_90", device=DEVICE)
    done: list[str] = []
    while len(done) < most and (lease := lessee.lease(block_ms=0)) is not None:
        lessee.report(lease, report_on(lease.job, worker))
        done.append(lease.job.id)
    lessee.depart()
    return done


async def test_an_equal_job_is_queued_once(dispatcher: Dispatcher, redis_url: str) -> None:
    for _ in range(3):
        await dispatcher.submit(trace_job("job-1"))
    assert work(redis_url) == ["job-1"]


async def test_a_leased_job_is_not_queued_again(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    LeaseClient(redis_url, "holder", target="sm_90").lease(block_ms=0)
    await dispatcher.submit(trace_job("job-1"))
    assert work(redis_url) == []


async def test_outstanding_jobs_are_those_queued_or_leased(dispatcher: Dispatcher, redis_url: str) -> None:
    for index in range(3):
        await dispatcher.submit(trace_job(f"trace-{index}"))
    await dispatcher.submit(measure_job("measure"))
    await dispatcher.submit(trace_job("other", "search-2"))
    LeaseClient(redis_url, "holder", target="sm_90").lease(block_ms=0)
    assert work(redis_url, most=1) == ["measure"]
    assert await dispatcher.outstanding("search-1") == {"trace-0", "trace-1", "trace-2"}
    assert await dispatcher.outstanding("search-3") == set()


async def test_cancelling_drops_the_jobs_of_one_search(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("mine"))
    await dispatcher.submit(measure_job("mine too"))
    await dispatcher.submit(trace_job("another's", "search-2"))
    await dispatcher.cancel("search-1")
    assert await dispatcher.outstanding("search-1") == set()
    assert work(redis_url) == ["another's"]


async def test_a_cancelled_search_can_go_on(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    await dispatcher.cancel("search-1")
    await dispatcher.submit(trace_job("job-1"))
    assert work(redis_url) == ["job-1"]


async def test_depth_counts_by_stream(dispatcher: Dispatcher, redis_url: str) -> None:
    for index in range(3):
        await dispatcher.submit(trace_job(f"trace-{index}"))
    await dispatcher.submit(measure_job("measure"))
    LeaseClient(redis_url, "holder", target="sm_90").lease(block_ms=0)
    assert await dispatcher.stats.depth() == {"sm_90:trace:search-1": 3, "model:sm_90:measure:search-1": 1}
    await asyncio.sleep(0.3)
    ages_s = await dispatcher.stats.ages_s()
    assert set(ages_s) == {"sm_90:trace", "model:sm_90:measure"} and all(0.2 < age < 30 for age in ages_s.values())
    await dispatcher.cancel("search-1")
    assert await dispatcher.stats.ages_s() == {}


async def test_reports_of_several_workers_come_back(dispatcher: Dispatcher, redis_url: str) -> None:
    for index in range(4):
        await dispatcher.submit(trace_job(f"job-{index}"))
    done = {*work(redis_url, "w-1", most=2), *work(redis_url, "w-2")}
    deliveries = await dispatcher.collect(block_ms=100)
    assert {delivery.report.job for delivery in deliveries} == done == {f"job-{index}" for index in range(4)}
    assert {delivery.report.worker for delivery in deliveries} == {"w-1", "w-2"}


async def test_an_acknowledged_report_is_gone(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    [delivery] = await dispatcher.collect(block_ms=100)
    await dispatcher.acknowledge([delivery.receipt])
    await asyncio.sleep(0.5)
    assert await dispatcher.collect(block_ms=0) == []


async def test_a_report_comes_again_until_it_is_acknowledged(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    [first] = await dispatcher.collect(block_ms=100)
    await asyncio.sleep(0.5)
    [second] = await dispatcher.collect(block_ms=0)
    assert second == first


async def test_a_report_comes_once_while_its_commit_may_take(redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    assert len(await dispatcher.collect(block_ms=100)) == 1
    assert await dispatcher.collect(block_ms=0) == []
    await dispatcher.close()


async def test_the_next_coordinator_gets_what_the_last_left_behind_at_once(
    dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    [left] = await dispatcher.collect(block_ms=100)
    successor = Dispatcher(redis_url)
    assert await successor.collect(block_ms=0) == [left]
    await successor.close()


async def test_a_report_that_lies_about_its_worker_is_dropped(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    liar = LeaseClient(redis_url, "liar", target="sm_90")
    lease = liar.lease(block_ms=0)
    assert lease is not None
    liar.report(lease, report_on(lease.job, "somebody else"))
    assert await dispatcher.collect(block_ms=0) == []
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen("reef:reports:liar") == 0


async def test_a_report_that_cannot_be_read_is_dropped(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    with redis.Redis.from_url(redis_url) as client:
        client.sadd("reef:workers", "w")
        client.xadd("reef:reports:w", {"report": '{"kind": "trace"}'})
        client.xadd("reef:reports:w", {"nothing": "here"})
        work(redis_url)
        [delivery] = await dispatcher.collect(block_ms=0)
        assert isinstance(delivery.report, TraceReport) and delivery.report.job == "job-1"
        assert client.xlen("reef:reports:w") == 1


async def test_of_a_report_that_cannot_be_read_it_is_told_which_job_it_is_about(
    dispatcher: Dispatcher, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.sadd("reef:workers", "w")
        told = '{"kind": "trace", "job": "job-1", "search": "search-1", "worker": "%s", "outcome": "of tomorrow"}'
        client.xadd("reef:reports:w", {"report": told % "w"})
        client.xadd("reef:reports:w", {"report": told % "somebody else"})
    [delivery] = await dispatcher.collect(block_ms=0)
    assert "of tomorrow" in delivery.unread and delivery.report.reason == delivery.unread
    assert (delivery.report.job, delivery.report.outcome.value) == ("job-1", "worker_lost")
    await dispatcher.acknowledge([delivery.receipt])
    assert await dispatcher.stats.reports_waiting() == 0


async def test_a_report_of_another_protocol_is_told_of_but_not_taken(dispatcher: Dispatcher, redis_url: str) -> None:
    told = report_on(trace_job("job-1"), "w").model_copy(update={"protocol_version": 1})
    with redis.Redis.from_url(redis_url) as client:
        client.sadd("reef:workers", "w")
        client.xadd("reef:reports:w", {"report": told.model_dump_json()})
    [delivery] = await dispatcher.collect(block_ms=0)
    assert f"it follows protocol 1, and here protocol {PROTOCOL_VERSION} is followed" in delivery.unread
    assert (delivery.report.job, delivery.report.outcome.value) == ("job-1", "worker_lost")


async def test_a_worker_that_is_gone_is_forgotten_with_its_last_report(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url, "brief")
    with redis.Redis.from_url(redis_url) as client:
        deliveries = await dispatcher.collect(block_ms=0)
        assert client.smembers("reef:workers") == {b"brief"}
        await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
        await asyncio.sleep(0.2)
        await dispatcher.collect(block_ms=0)
        assert client.smembers("reef:workers") == set()
        assert client.exists("reef:reports:brief") == 0


async def test_a_status_of_another_version_hides_no_other(dispatcher: Dispatcher, redis_url: str) -> None:
    LeaseClient(redis_url, "ours", target="sm_90").announce()
    with redis.Redis.from_url(redis_url) as client:
        client.sadd("reef:workers", "theirs")
        client.set("reef:worker:theirs", '{"id": "theirs", "mood": "good"}')
    assert [status.id for status in await dispatcher.workers()] == ["ours"]


async def test_a_queue_that_lost_everything_goes_on(dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    await dispatcher.collect(block_ms=0)
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    assert await dispatcher.outstanding("search-1") == set()
    await dispatcher.submit(trace_job("job-1"))
    work(redis_url)
    collected = [*await dispatcher.collect(block_ms=0), *await dispatcher.collect(block_ms=0)]
    assert [delivery.report.job for delivery in collected] == ["job-1"]


async def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        dispatcher = Dispatcher(server.url)
        for index in range(20):
            await dispatcher.submit(trace_job(f"job-{index}"))
        work(server.url, most=5)
        LeaseClient(server.url, "holder", target="sm_90").lease(block_ms=0)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        while True:
            try:
                held = await dispatcher.outstanding("search-1")
                break
            except QueueUnavailable:
                await asyncio.sleep(0.05)
        assert len(held) == 15
        assert len(await dispatcher.collect(block_ms=0)) == 5
        assert len(work(server.url)) == 14
        await dispatcher.close()


async def test_a_queue_that_is_away_is_said_to_be() -> None:
    dispatcher = Dispatcher("redis://127.0.0.1:1")
    with pytest.raises(QueueUnavailable, match="does not answer"):
        await dispatcher.submit(trace_job("job-1"))
    await dispatcher.close()
