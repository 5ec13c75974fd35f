"""Leasing: where jobs go, in which order, and what becomes of them when their worker dies."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import redis

from tests.workers.queue.samples import DEVICE, confirm_job, final_job, measure_job, report_on, trace_job
from workers.errors import QueueUnavailable
from workers.protocol import Outcome
from workers.queue import Dispatcher, LeaseClient, WorkerStatus
from workers.queue.lease import MAX_DELIVERIES

SHORT_MS = 200
"""A lease time that a test can outwait. Whoever claims judges by its own."""

Hire = Callable[..., LeaseClient]


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def hire(redis_url: str) -> Iterator[Hire]:
    """Make workers that trace for sm_90 unless told otherwise."""
    hired: list[LeaseClient] = []

    def hire(worker: str = "w", *, lease_ms: int = 60_000, **where: str) -> LeaseClient:
        hired.append(LeaseClient(redis_url, worker, lease_ms=lease_ms, **(where or {"target": "sm_90"})))
        return hired[-1]

    yield hire
    for lessee in hired:
        lessee.depart()


async def test_a_job_comes_as_it_was_sent(dispatcher: Dispatcher, hire: Hire) -> None:
    sent = measure_job("job-1")
    await dispatcher.submit(sent)
    lease = hire(device=DEVICE).lease(block_ms=0)
    assert lease is not None and lease.job == sent and lease.deliveries == 1


def test_an_empty_queue_gives_nothing(hire: Hire) -> None:
    assert hire().lease(block_ms=0) is None
    assert hire("sleeper").lease(block_ms=20) is None


async def test_a_job_goes_only_where_it_can_run(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("for another target", target="gfx942"))
    await dispatcher.submit(measure_job("for a card", device="h200"))
    assert hire("tracer").lease(block_ms=0) is None
    assert hire("model", device=DEVICE).lease(block_ms=0) is None
    assert hire("recording", device="recorded:h200").lease(block_ms=0) is None
    lease = hire("card", device="h200").lease(block_ms=0)
    assert lease is not None and lease.job.id == "for a card"


async def test_what_finishes_a_candidate_comes_first(dispatcher: Dispatcher, hire: Hire) -> None:
    for job in (trace_job("trace"), measure_job("measure"), confirm_job("confirm")):
        await dispatcher.submit(job)
    worker = hire(target="sm_90", device=DEVICE)
    assert [worker.lease(block_ms=0).job.id for _ in range(3)] == ["confirm", "measure", "trace"]


async def test_a_worker_leases_no_finalist_in_advance(dispatcher: Dispatcher, hire: Hire) -> None:
    for job in (measure_job("measure"), final_job("finalist")):
        await dispatcher.submit(job)
    worker = hire(device=DEVICE)
    assert [lease and lease.job.id for lease in (worker.lease(0), worker.lease(0, busy="measure"))] == ["measure", None]
    idle = hire("idle", device=DEVICE).lease(block_ms=20)
    assert idle is not None and idle.job.id == "finalist", "its token is still there to wake an idle worker"


async def test_searches_are_served_in_turn(dispatcher: Dispatcher, hire: Hire) -> None:
    for index in range(30):
        await dispatcher.submit(trace_job(f"a{index}", "search-a"))
    for index in range(4):
        await dispatcher.submit(trace_job(f"b{index}", "search-b"))
    worker = hire()
    served = [worker.lease(block_ms=0).job.search for _ in range(8)]
    assert sorted(served) == ["search-a"] * 4 + ["search-b"] * 4


async def test_a_search_that_comes_late_gets_its_share_and_not_all(dispatcher: Dispatcher, hire: Hire) -> None:
    worker = hire()
    for index in range(40):
        await dispatcher.submit(trace_job(f"a{index}", "search-a"))
    for _ in range(20):
        worker.lease(block_ms=0)
    for index in range(20):
        await dispatcher.submit(trace_job(f"b{index}", "search-b"))
    served = [worker.lease(block_ms=0).job.search for _ in range(10)]
    assert 4 <= served.count("search-b") <= 6


async def test_a_sleeping_worker_is_woken(dispatcher: Dispatcher, hire: Hire, client: "redis.Redis") -> None:
    waiting = asyncio.create_task(asyncio.to_thread(hire().lease, 5_000))
    while not any(connection["cmd"] == "blpop" for connection in client.client_list()):
        await asyncio.sleep(0.01)
    await dispatcher.submit(trace_job("job-1"))
    lease = await waiting
    assert lease is not None and lease.job.id == "job-1"


async def test_a_dead_workers_job_goes_to_another(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    assert hire("dies").lease(block_ms=0) is not None
    assert hire("patient").lease(block_ms=0) is None
    heir = hire("heir", lease_ms=SHORT_MS)
    time.sleep(SHORT_MS / 1000)
    lease = heir.lease(block_ms=0)
    assert lease is not None and (lease.job.id, lease.deliveries) == ("job-1", 2)


async def test_one_searchs_dead_worker_does_not_hold_up_others(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("a", "search-a"))
    hire("dies").lease(block_ms=0)
    await dispatcher.submit(trace_job("b", "search-b"))
    lease = hire("lives").lease(block_ms=0)
    assert lease is not None and lease.job.id == "b"


async def test_a_heartbeat_keeps_a_job(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    keeper, rival = hire("keeper", lease_ms=1_000), hire("rival", lease_ms=1_000)
    lease = keeper.lease(block_ms=0)
    assert lease is not None
    for _ in range(5):
        time.sleep(0.25)
        assert keeper.heartbeat(lease)
        assert rival.lease(block_ms=0) is None


async def test_a_heartbeat_tells_of_a_lease_that_lapsed(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    slow, quick = hire("slow"), hire("quick", lease_ms=SHORT_MS)
    lost = slow.lease(block_ms=0)
    time.sleep(SHORT_MS / 1000)
    taken = quick.lease(block_ms=0)
    assert lost is not None and taken is not None
    assert not slow.heartbeat(lost)
    assert quick.heartbeat(taken)


async def test_a_heartbeat_tells_of_a_cancelled_job(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    worker = hire()
    lease = worker.lease(block_ms=0)
    assert lease is not None and worker.heartbeat(lease)
    await dispatcher.cancel("search-1")
    assert not worker.heartbeat(lease)


async def test_a_reported_job_is_settled(dispatcher: Dispatcher, hire: Hire, client: "redis.Redis") -> None:
    await dispatcher.submit(trace_job("job-1"))
    worker = hire()
    lease = worker.lease(block_ms=0)
    assert lease is not None
    worker.report(lease, report_on(lease.job, "w"))
    assert not worker.heartbeat(lease)
    assert client.xlen(lease.queue.jobs("search-1")) == 0
    assert await dispatcher.outstanding("search-1") == set()


async def test_after_three_deliveries_a_job_is_lost(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("kills its worker"))
    for attempt in range(MAX_DELIVERIES):
        lease = hire(f"victim-{attempt}", lease_ms=SHORT_MS).lease(block_ms=0)
        assert lease is not None and lease.deliveries == attempt + 1
        time.sleep(SHORT_MS / 1000)
    assert hire("survivor", lease_ms=SHORT_MS).lease(block_ms=0) is None
    [delivery] = await dispatcher.collect(block_ms=0)
    assert (delivery.report.job, delivery.report.outcome) == ("kills its worker", Outcome.WORKER_LOST)
    assert await dispatcher.outstanding("search-1") == set()


async def test_a_released_job_is_there_at_once(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    first, second = hire("first"), hire("second")
    lease = first.lease(block_ms=0)
    assert lease is not None
    first.release(lease)
    again = second.lease(block_ms=0)
    assert again is not None and again.deliveries == 1
    second.release(again, "the bench died")
    third = first.lease(block_ms=0)
    assert third is not None and third.deliveries == 2


async def test_a_lost_job_tells_the_last_mishap(dispatcher: Dispatcher, hire: Hire, client: "redis.Redis") -> None:
    await dispatcher.submit(trace_job("job-1"))
    worker = hire()
    for attempt in range(MAX_DELIVERIES):
        lease = worker.lease(block_ms=0)
        assert lease is not None
        worker.release(lease, f"mishap {attempt + 1}")
    assert worker.lease(block_ms=0) is None
    [delivery] = await dispatcher.collect(block_ms=0)
    assert delivery.report.reason.endswith("The last one said: mishap 3")
    assert client.keys("reef:mishaps:*") == []


async def test_a_lapsed_lease_cannot_be_released(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("job-1"))
    slow, quick = hire("slow"), hire("quick", lease_ms=SHORT_MS)
    lost = slow.lease(block_ms=0)
    time.sleep(SHORT_MS / 1000)
    taken = quick.lease(block_ms=0)
    assert lost is not None and taken is not None
    slow.release(lost, "too slow")
    assert quick.heartbeat(taken)


async def test_an_unreadable_job_goes_to_the_dead_letters(
    dispatcher: Dispatcher, hire: Hire, client: "redis.Redis"
) -> None:
    await dispatcher.submit(trace_job("old"))
    stream = "reef:jobs:sm_90:trace:search-1"
    client.xtrim(stream, maxlen=0)
    client.xadd(stream, {"id": "old", "job": '{"kind": "trace", "from": "the future"}'})
    await dispatcher.submit(trace_job("good"))
    lease = hire().lease(block_ms=0)
    assert lease is not None and lease.job.id == "good"
    [(_, letter)] = client.xrange("reef:dead:sm_90:trace")
    assert (letter["id"], letter["search"]) == ("old", "search-1") and "Field required" in letter["error"]
    assert client.xlen(stream) == 1
    assert await dispatcher.outstanding("search-1") == {"good"}


async def test_a_worker_says_what_it_is_and_what_it_does(dispatcher: Dispatcher, hire: Hire) -> None:
    worker = hire("w-1", target="sm_90", device=DEVICE)
    worker.announce(jail="pid+net", versions={"triton": "3.7.1"})
    worker.announce(versions={"torch": "2.13.0"})
    await dispatcher.submit(trace_job("job-1"))
    lease = worker.lease(block_ms=0)
    assert lease is not None and worker.heartbeat(lease)
    [status] = await dispatcher.workers()
    assert isinstance(status, WorkerStatus) and status.id == "w-1" and status.busy == "job-1"
    assert (status.target, status.device, status.kinds) == ("sm_90", DEVICE, ("confirm", "measure", "trace", "final"))
    assert (status.jail, status.versions) == ("pid+net", {"triton": "3.7.1", "torch": "2.13.0"})


async def test_a_silent_worker_is_no_longer_listed(dispatcher: Dispatcher, hire: Hire) -> None:
    hire("silent", lease_ms=SHORT_MS).announce()
    time.sleep(2 * SHORT_MS / 1000)
    assert await dispatcher.workers() == []


async def test_a_departed_worker_is_no_longer_listed(dispatcher: Dispatcher, hire: Hire) -> None:
    worker = hire("leaves")
    worker.announce()
    worker.depart()
    assert await dispatcher.workers() == []


def test_a_queue_that_is_away_is_said_to_be() -> None:
    lessee = LeaseClient("redis://127.0.0.1:1", "w", target="sm_90")
    with pytest.raises(QueueUnavailable, match="does not answer"):
        lessee.lease(block_ms=0)


async def share_out(dispatcher: Dispatcher, search: str, count: int, *, owner: str = "", priority: int = 5) -> None:
    dispatcher.share(search, owner, priority)
    for index in range(count):
        await dispatcher.submit(trace_job(f"{search}:{index}", search))


def served(redis_url: str, count: int) -> list[str]:
    worker = LeaseClient(redis_url, "w", target="sm_90")
    leases = (worker.lease(block_ms=0) for _ in range(count))
    return [lease.job.search for lease in leases if lease is not None]


async def test_a_priority_is_a_share(dispatcher: Dispatcher, redis_url: str) -> None:
    await share_out(dispatcher, "urgent", 60, priority=9)
    await share_out(dispatcher, "usual", 60, priority=3)
    await share_out(dispatcher, "idle", 60, priority=1)
    turns = Counter(served(redis_url, 52))
    assert 34 <= turns["urgent"] <= 38 and 11 <= turns["usual"] <= 14 and 3 <= turns["idle"] <= 6


async def test_a_hundred_searches_do_not_starve_one(dispatcher: Dispatcher, redis_url: str) -> None:
    for number in range(100):
        await share_out(dispatcher, f"many-{number}", 1, owner="ann", priority=9)
    await share_out(dispatcher, "only", 20, owner="bob", priority=1)
    turns = served(redis_url, 20)
    assert turns.count("only") == 10 and len(set(turns)) == 11


async def test_an_owner_that_comes_late_gets_its_share_and_not_all(dispatcher: Dispatcher, redis_url: str) -> None:
    await share_out(dispatcher, "early", 60, owner="ann")
    assert served(redis_url, 20) == ["early"] * 20
    await share_out(dispatcher, "late", 20, owner="bob")
    assert 4 <= served(redis_url, 10).count("late") <= 6


async def test_places_that_one_leaves_the_other_takes(dispatcher: Dispatcher, redis_url: str) -> None:
    await share_out(dispatcher, "little", 2, owner="ann", priority=9)
    await share_out(dispatcher, "much", 10, owner="bob", priority=1)
    assert Counter(served(redis_url, 12)) == {"little": 2, "much": 10}
    await share_out(dispatcher, "more", 4, owner="ann")
    assert served(redis_url, 4) == ["more"] * 4


async def test_a_cancelled_search_leaves_nothing(dispatcher: Dispatcher, redis_url: str) -> None:
    await share_out(dispatcher, "gone", 3, owner="ann")
    await share_out(dispatcher, "stays", 1, owner="ann")
    await dispatcher.cancel("gone")
    assert served(redis_url, 3) == ["stays"]


async def test_a_job_waits_for_a_worker_that_has_its_compiler(dispatcher: Dispatcher, hire: Hire) -> None:
    asked = trace_job("asked").model_copy(update={"compiler": "3.9"})
    await dispatcher.submit(asked)
    old, new, unknown = hire("old"), hire("new"), hire("unknown")
    old.announce(versions={"triton": "3.7.1"})
    assert old.lease(block_ms=0) is None and unknown.lease(block_ms=0) is None
    new.announce(versions={"triton": "3.9.0"})
    lease = new.lease(block_ms=0)
    assert lease is not None and lease.job == asked


async def test_model_devices_execute_what_their_own_compiler_wrote(dispatcher: Dispatcher, hire: Hire) -> None:
    asked = measure_job("asked").model_copy(update={"compiler": "3.9"})
    await dispatcher.submit(asked)
    old, new = hire("old", device=DEVICE), hire("new", device=DEVICE)
    old.announce(versions={"triton": "3.8.0"})
    new.announce(versions={"triton": "3.9.0"})
    assert old.lease(block_ms=0) is None
    lease = new.lease(block_ms=0)
    assert lease is not None and lease.job == asked


async def test_neither_jobs_that_ask_for_a_compiler_nor_the_others_come_first_for_ever(
    dispatcher: Dispatcher, hire: Hire
) -> None:
    for number in range(24):
        asked = trace_job(f"asked-{number}", search="asking").model_copy(update={"compiler": "3.7"})
        await dispatcher.submit_all([(trace_job(f"any-{number}", search="any"), False), (asked, False)])
    worker = hire()
    worker.announce(versions={"triton": "3.7.1"})
    leases = [worker.lease(block_ms=0) for _ in range(24)]
    counts = Counter(lease.job.search for lease in leases if lease)
    assert min(counts["asking"], counts["any"]) > 2
