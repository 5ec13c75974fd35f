"""A report that another coordinator has to apply is in one place or the other, never in neither."""

from tests.workers.queue.samples import trace_job
from workers.protocol import Outcome, TraceReport
from workers.queue import Dispatcher, LeaseClient


async def handed_in(dispatcher: Dispatcher, redis_url: str, *jobs: str) -> None:
    lessee = LeaseClient(redis_url, "w", target="sm_90")
    for job in jobs:
        await dispatcher.submit(trace_job(job))
        lease = lessee.lease(block_ms=100)
        assert lease is not None
        lessee.report(lease, TraceReport(job=job, search="search-1", worker="w", outcome=Outcome.CORRECT))


async def test_what_one_collects_the_other_reads_until_it_is_settled(redis_url: str) -> None:
    first, second = Dispatcher(redis_url, alone=False), Dispatcher(redis_url, alone=False)
    await handed_in(first, redis_url, "job-1", "job-2")
    collected = await first.collect()
    await first.forwarding.give([delivery.report for delivery in collected])
    await first.acknowledge([delivery.receipt for delivery in collected])
    assert await first.stats.reports_waiting() == 0 and await first.collect(block_ms=0) == []
    assert await second.forwarding.given({"another"}) == []
    for _ in range(2):
        handed = await second.forwarding.given({"search-1", "another"})
        assert [delivery.report.job for delivery in handed] == ["job-1", "job-2"]
    await second.forwarding.settle(handed[:1])
    assert [delivery.report.job for delivery in await first.forwarding.given({"search-1"})] == ["job-2"]
    await second.forwarding.settle(handed[1:])
    assert await first.forwarding.given({"search-1"}) == []
    for dispatcher in (first, second):
        await dispatcher.close()


async def test_a_coordinator_that_is_not_alone_leaves_others_their_reports(redis_url: str) -> None:
    first, second = Dispatcher(redis_url, alone=False, redeliver_ms=200), Dispatcher(redis_url, alone=False)
    await handed_in(first, redis_url, "job-1")
    assert len(await first.collect()) == 1
    assert await second.collect(block_ms=0) == []
    left = Dispatcher(redis_url, alone=False, redeliver_ms=1)
    assert [delivery.report.job for delivery in await left.collect()] == ["job-1"]
    for dispatcher in (first, second, left):
        await dispatcher.close()
