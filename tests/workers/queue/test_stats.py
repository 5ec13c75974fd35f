"""What is said of the queue."""

from tests.workers.queue.samples import trace_job
from workers.protocol import Outcome, TraceReport
from workers.queue import Dispatcher, LeaseClient


async def test_a_life_has_one_name(redis_url: str) -> None:
    first, second = Dispatcher(redis_url), Dispatcher(redis_url)
    assert await first.stats.life() == await second.stats.life() != ""
    await first.close()
    await second.close()


async def test_reports_wait_until_they_are_acknowledged(redis_url: str) -> None:
    dispatcher, lessee = Dispatcher(redis_url), LeaseClient(redis_url, "w", target="sm_90")
    assert await dispatcher.stats.reports_waiting() == 0
    await dispatcher.submit(trace_job("job-1"))
    lease = lessee.lease(block_ms=100)
    assert lease is not None
    lessee.report(lease, TraceReport(job="job-1", search="search-1", worker="w", outcome=Outcome.CORRECT))
    deliveries = await dispatcher.collect()
    assert await dispatcher.stats.reports_waiting() == 1
    await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
    assert await dispatcher.stats.reports_waiting() == 0
    await dispatcher.close()


async def test_a_searchs_lanes_are_those_with_jobs_of_its_own(redis_url: str) -> None:
    dispatcher, lessee = Dispatcher(redis_url), LeaseClient(redis_url, "w", target="sm_90")
    assert await dispatcher.stats.queues_of("search-1") == []
    await dispatcher.submit(trace_job("job-1"))
    assert [queue.name for queue in await dispatcher.stats.queues_of("search-1")] == ["sm_90:trace"]
    assert await dispatcher.stats.queues_of("search-2") == []
    lease = lessee.lease(block_ms=100)
    assert lease is not None and await dispatcher.stats.queues_of("search-1") != []
    lessee.report(lease, TraceReport(job="job-1", search="search-1", worker="w", outcome=Outcome.CORRECT))
    assert await dispatcher.stats.queues_of("search-1") == []
    await dispatcher.close()
