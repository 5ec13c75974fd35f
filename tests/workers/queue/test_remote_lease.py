"""What a host does over its own credential: ask, work, report, give back, leave; and what its credential cannot do."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from tests.workers.queue.hosts import HOST, OTHER, PASSWORD, admit, lessee, seat, serve
from tests.workers.queue.samples import measure_job, report_on, trace_job
from workers.errors import Dismissed, QueueUnavailable
from workers.queue import Dispatcher, Lease, LeaseBroker, LeaseClient, RemoteLeaseClient
from workers.queue.broker import MOST_REPORTS
from workers.queue.keys import user_of


@pytest.fixture
async def porter(redis_url: str) -> AsyncIterator[LeaseBroker]:
    porter = LeaseBroker(redis_url)
    await admit(porter)
    yield porter
    for worker in await porter.users():
        await porter.dismiss(worker)
    await porter.close()


@pytest.fixture
async def dispatcher(redis_url: str) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(redis_url, redeliver_ms=300)
    yield dispatcher
    await dispatcher.close()


async def take(host: RemoteLeaseClient, porter: LeaseBroker, *seats: Any) -> Lease | None:
    """Ask, have the porter answer, and read what it said."""
    asking = asyncio.create_task(asyncio.to_thread(host.lease, 2_000))
    while not asking.done():
        await serve(porter, *(seats or (seat(),)))
        await asyncio.sleep(0.02)
    return await asking


async def test_a_job_is_handed_done_reported_and_settled(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    host = lessee(redis_url)
    host.announce(jail="pid", versions={"triton": "3.7.1"})
    lease = await take(host, porter)
    assert lease is not None and lease.job == trace_job("job-1") and host.heartbeat(lease)
    host.report(lease, report_on(lease.job, HOST))
    [delivery] = await dispatcher.collect(block_ms=100)
    assert delivery.report.job == "job-1" and delivery.known == ""
    assert await dispatcher.outstanding("search-1") == {"job-1"}, "settled with the acknowledgement"
    await dispatcher.acknowledge([delivery.receipt])
    assert await dispatcher.outstanding("search-1") == set()
    [status] = await dispatcher.workers()
    assert (status.id, status.jail, status.busy) == (HOST, "pid", "job-1")
    host.depart()
    assert await dispatcher.workers() == []


async def test_the_next_job_comes_before_the_last_report_is_committed(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    host = lessee(redis_url)
    for name in ("job-1", "job-2"):
        await dispatcher.submit(trace_job(name))
        lease = await take(host, porter)
        assert lease is not None and lease.job.id == name
        host.report(lease, report_on(lease.job, HOST))
    deliveries = await dispatcher.collect(block_ms=100)
    assert [delivery.report.job for delivery in deliveries] == ["job-1", "job-2"]
    await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
    assert await dispatcher.outstanding("search-1") == set()


async def test_a_host_gets_only_jobs_of_its_lanes_and_no_reserved_ones(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("elsewhere", target="sm_80"))
    await dispatcher.submit(measure_job("measure", device="h200"))
    await dispatcher.submit(trace_job("reserved"), reserved=True)
    host = lessee(redis_url)
    assert await take(host, porter) is None
    trusted = await take(host, porter, seat(trusted=True))
    assert trusted is not None and trusted.job.id == "reserved"
    assert trusted.queue.name == "sm_90:trace"


async def test_a_job_given_back_goes_to_another_at_once(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    host = lessee(redis_url)
    lease = await take(host, porter)
    assert lease is not None
    host.release(lease, "the bench died")
    await serve(porter, seat())
    again = LeaseClient(redis_url, "heir", target="sm_90").lease(block_ms=0)
    assert again is not None and (again.job.id, again.deliveries) == ("job-1", 2)


async def test_a_silent_hosts_job_lapses_and_its_late_report_does_not_count(
    dispatcher: Dispatcher, redis_url: str
) -> None:
    quick = LeaseBroker(redis_url, lease_ms=200)
    await admit(quick)
    await dispatcher.submit(trace_job("job-1"))
    host = lessee(redis_url)
    lease = await take(host, quick)
    assert lease is not None
    host.depart()
    await asyncio.sleep(0.3)
    heir = LeaseClient(redis_url, "heir", target="sm_90", lease_ms=200).lease(block_ms=0)
    assert heir is not None and heir.job.id == "job-1"
    host.report(lease, report_on(lease.job, HOST))
    await quick.keep([seat()])
    with redis.Redis.from_url(redis_url) as client:
        client.sadd("reef:workers", HOST)
    assert await dispatcher.collect(block_ms=100) == [] and dispatcher.refused() == {HOST: 1}
    assert not host.heartbeat(lease)
    await quick.dismiss(HOST)
    await quick.close()


async def test_a_cancelled_job_is_taken_from_its_host(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    host = lessee(redis_url)
    lease = await take(host, porter)
    assert lease is not None and host.heartbeat(lease)
    await dispatcher.cancel("search-1")
    await porter.keep([seat()])
    assert not host.heartbeat(lease)


async def test_a_job_that_fails_every_host_is_lost(porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("poison"))
    host = lessee(redis_url)
    for attempt in range(3):
        lease = await take(host, porter)
        assert lease is not None and lease.job.id == "poison"
        host.release(lease, f"mishap {attempt}")
        await serve(porter, seat())
    assert await take(host, porter) is None
    [delivery] = await dispatcher.collect(block_ms=100)
    assert delivery.report.outcome == "worker_lost" and delivery.report.reason.endswith("mishap 2")


async def test_a_drained_host_finishes_and_leaves(porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str) -> None:
    await dispatcher.submit(trace_job("job-1"))
    await dispatcher.submit(trace_job("job-2"))
    host, leaving = lessee(redis_url), seat().__class__(HOST, seat().queues, draining=True)
    lease = await take(host, porter)
    assert lease is not None
    await serve(porter, leaving)
    assert host.heartbeat(lease), "what it holds it may finish"
    host.report(lease, report_on(lease.job, HOST))
    with pytest.raises(Dismissed, match="drained"):
        await take(host, porter, leaving)


async def test_a_dismissed_host_is_cut_off_and_its_jobs_return_at_once(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    host = lessee(redis_url, standing="revoked")
    lease = await take(host, porter)
    assert lease is not None
    host.report(lease, report_on(lease.job, HOST))
    began = time.monotonic()
    assert await porter.dismiss(HOST) == 1
    heir = LeaseClient(redis_url, "heir", target="sm_90").lease(block_ms=0)
    assert heir is not None and (heir.job.id, heir.deliveries) == ("job-1", 1)
    with pytest.raises(Dismissed, match="revoked"):
        host.heartbeat(lease)
    assert time.monotonic() - began < 2
    assert await dispatcher.collect(block_ms=50) == [], "its report went with it"


async def test_a_host_that_redis_forgot_waits_until_it_is_let_in_again(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    host = lessee(redis_url)
    host.announce()
    await porter.dismiss(HOST)
    with pytest.raises(QueueUnavailable):
        await asyncio.to_thread(host.announce)
    await admit(porter)
    host.announce()
    await porter.keep([seat()])
    assert [status.id for status in await dispatcher.workers()] == [HOST]


async def test_a_report_is_taken_once_and_only_from_whom_the_job_was_handed_to(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await admit(porter, OTHER)
    for name in ("job-1", "job-2"):
        await dispatcher.submit(trace_job(name))
    honest, liar = lessee(redis_url), lessee(redis_url, OTHER)
    theirs = await take(honest, porter)
    mine = await take(liar, porter, seat(OTHER))
    assert theirs is not None and mine is not None
    liar.report(mine, report_on(theirs.job, OTHER))
    liar.report(mine, report_on(theirs.job, HOST))
    liar.report(mine, report_on(trace_job("never sent"), OTHER))
    for lie in ({"candidate": "another"}, {"search": "search-2"}, {"protocol_version": 7}):
        liar.report(mine, report_on(mine.job, OTHER).model_copy(update=lie))
    assert await dispatcher.collect(block_ms=100) == []
    assert dispatcher.refused() == {OTHER: 6} and dispatcher.refused() == {}
    honest.report(theirs, report_on(theirs.job, HOST))
    [delivery] = await dispatcher.collect(block_ms=100)
    await dispatcher.acknowledge([delivery.receipt])
    honest.report(theirs, report_on(theirs.job, HOST))
    assert await dispatcher.collect(block_ms=100) == [] and dispatcher.refused() == {HOST: 1}


async def test_a_planted_job_looks_like_any_other_and_says_what_is_known_only_to_us(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    host = lessee(redis_url)
    asking = asyncio.create_task(asyncio.to_thread(host.lease, 2_000))
    while not (asks := await porter.asks([seat()])):
        await asyncio.sleep(0.02)
    assert await porter.insert_spot_check(*asks[0], trace_job("known"), '{"outcome": "correct"}')
    assert not await porter.insert_spot_check(*asks[0], trace_job("another"), "{}"), "one at a time"
    lease = await asking
    assert lease is not None and lease.job == trace_job("known") and host.heartbeat(lease)
    await porter.keep([seat()])
    assert host.heartbeat(lease)
    host.report(lease, report_on(lease.job, HOST))
    [delivery] = await dispatcher.collect(block_ms=100)
    assert delivery.known == '{"outcome": "correct"}'
    await dispatcher.acknowledge([delivery.receipt])
    with redis.Redis.from_url(redis_url) as client:
        assert client.hkeys(f"reef:porter:{HOST}") == [b""]


async def test_a_flood_of_reports_is_noticed(porter: LeaseBroker, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client, client.pipeline() as pipeline:
        for _ in range(MOST_REPORTS + 1):
            pipeline.xadd(f"reef:reports:{HOST}", {"report": "{}"})
        pipeline.execute()
    assert await porter.keep([seat(), seat(OTHER)]) == (set(), {HOST})


MINE = (f"reef:worker:{HOST}", f"reef:ask:{HOST}", f"reef:reports:{HOST}", f"reef:inbox:{HOST}", f"reef:held:{HOST}")
JOBS = "reef:jobs:sm_90:trace:search-1"
FORBIDDEN: list[tuple[Any, ...]] = [
    *[
        (command,)
        for command in ("SCAN 0", "KEYS *", "FLUSHALL", "FLUSHDB", "DBSIZE", "INFO", "MONITOR", "SAVE", "RANDOMKEY")
    ],
    *[
        (command,)
        for command in ("CONFIG GET requirepass", "CONFIG SET dir /tmp", "ACL LIST", "ACL WHOAMI", "SHUTDOWN")
    ],
    *[(command,) for command in ("CLIENT LIST", "CLIENT KILL TYPE normal", "MODULE LIST", "REPLICAOF NO ONE")],
    *[
        (command,)
        for command in ("SUBSCRIBE reef", "PUBLISH reef hello", "MULTI", "SELECT 1", "SWAPDB 0 1", "SLOWLOG GET")
    ],
    ("EVAL", "return redis.call('KEYS', '*')", "0"),
    ("EVAL", "return 1", "0"),
    ("SCRIPT", "LOAD", "return 1"),
    ("FUNCTION", "LIST"),
    ("ACL", "SETUSER", user_of(HOST), "~*"),
    *[
        ("GET", key)
        for key in (MINE[0], MINE[1], f"reef:held:{OTHER}", f"reef:worker:{OTHER}", "reef:turn:sm_90:trace")
    ],
    *[("SET", key, "x") for key in (*MINE[2:], f"reef:worker:{OTHER}", f"reef:ask:{OTHER}", "reef:lanes", "anything")],
    *[("DEL", key) for key in (*MINE[2:], f"reef:porter:{HOST}", JOBS, f"reef:reports:{OTHER}")],
    *[
        ("XADD", key, "*", "report", "{}")
        for key in (JOBS, f"reef:reports:{OTHER}", "reef:reports:w", "reef:dead:sm_90:trace")
    ],
    *[("BLPOP", key, "0.01") for key in (f"reef:inbox:{OTHER}", "reef:wake:sm_90:trace", MINE[2])],
    *[("TYPE", key) for key in (JOBS, MINE[0])],
    ("XREADGROUP", "GROUP", "workers", HOST, "COUNT", "1", "STREAMS", JOBS, ">"),
    ("XRANGE", JOBS, "-", "+"),
    ("XRANGE", MINE[2], "-", "+"),
    ("XREAD", "COUNT", "1", "STREAMS", JOBS, "0"),
    ("XCLAIM", JOBS, "workers", HOST, "0", "0-1"),
    ("XACK", JOBS, "workers", "0-1"),
    ("XDEL", JOBS, "0-1"),
    ("XTRIM", JOBS, "MAXLEN", "0"),
    ("XGROUP", "DESTROY", MINE[2], "service"),
    ("HGETALL", f"reef:porter:{HOST}"),
    ("HSET", f"reef:porter:{HOST}", "job", "{}"),
    ("HDEL", "reef:ids:sm_90:trace:search-1", "job-1"),
    ("SMEMBERS", "reef:workers"),
    ("SADD", "reef:workers", "another"),
    ("ZRANGE", "reef:served:sm_90:trace", "0", "-1"),
    ("LPUSH", MINE[3], "x"),
    ("RENAME", MINE[0], MINE[4]),
    ("COPY", MINE[3], MINE[0]),
    ("EXPIRE", MINE[2], "1"),
    ("OBJECT", "ENCODING", JOBS),
    ("DUMP", JOBS),
]


async def test_a_hosts_credential_is_refused_what_is_not_its_own(
    porter: LeaseBroker, dispatcher: Dispatcher, redis_url: str
) -> None:
    await dispatcher.submit(trace_job("job-1"))
    address = f"redis://{redis_url.rpartition('@')[2]}"
    for words in FORBIDDEN:
        command = words if len(words) > 1 else tuple(words[0].split())
        with redis.Redis.from_url(address, username=user_of(HOST), password=PASSWORD) as client:
            try:
                answer = client.execute_command(*command)
            except redis.exceptions.NoPermissionError:
                continue
        raise AssertionError(f"{command} was answered with {answer!r}")
    assert await dispatcher.outstanding("search-1") == {"job-1"}


ALLOWED = {
    ("set", MINE[0]),
    ("del", MINE[0]),
    ("set", MINE[1]),
    ("del", MINE[1]),
    ("xadd", MINE[2]),
    ("blpop", MINE[3]),
    ("get", MINE[4]),
}
"""What a host may do with which key; the page on joining says the same."""
GREETINGS = {"auth", "client|setinfo", "client|setname", "hello", "ping", "quit", "reset"}
"""Commands that have to do with a host's own connection alone."""


async def test_of_all_commands_of_the_server_a_host_may_use_five_each_on_its_own_keys(
    porter: LeaseBroker, redis_url: str
) -> None:
    others = (f"reef:worker:{OTHER}", f"reef:held:{OTHER}", f"reef:porter:{HOST}", JOBS, "reef:lanes", "anything")
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        known = commands(client.execute_command("COMMAND"))
        assert len(known) > 350 and {"set", "eval", "config|get", "acl|setuser", "module|load"} <= known.keys()
        tried = [(name, key) for name in known for key in (*MINE, *others)]
        with client.pipeline(transaction=False) as pipeline:
            for name, key in tried:
                pipeline.execute_command("ACL", "DRYRUN", user_of(HOST), *name.split("|"), *[key] * known[name])
            answers = pipeline.execute(raise_on_error=False)
        refused = {pair for pair, answer in zip(tried, answers, strict=True) if "no permission" in str(answer)}
        odd = [(pair, answer) for pair, answer in zip(tried, answers, strict=True) if isinstance(answer, Exception)]
        assert odd == [], "each was tried with as many words as it takes"
        assert {pair for pair in tried if pair[0] not in GREETINGS} - refused == ALLOWED
        beside = (("DEL", MINE[0], others[0]), ("BLPOP", MINE[3], others[1], "0"), ("XADD", others[3], "*", "a", "b"))
        for words in beside:
            assert "no permission" in str(client.execute_command("ACL", "DRYRUN", user_of(HOST), *words)), words


def commands(told: dict[str, Any]) -> dict[str, int]:
    """Every command of a server, subcommands as `config|get`, with how many words each takes at least."""
    found = {}
    for name, one in told.items():
        for full, arity in [(sub[0], sub[1]) for sub in one["subcommands"]] or [(name, one["arity"])]:
            found[full.lower()] = abs(arity) - 1 - full.count("|")
    return found


@pytest.mark.parametrize(
    ("user", "password"), [("default", ""), ("default", PASSWORD), (user_of(HOST), "guess"), (user_of(OTHER), PASSWORD)]
)
async def test_nobody_else_gets_in(porter: LeaseBroker, redis_url: str, user: str, password: str) -> None:
    host, _, port = redis_url.rpartition("@")[2].partition("/")[0].partition(":")
    with (
        redis.Redis(host=host, port=int(port), username=user, password=password or None) as client,
        pytest.raises(redis.exceptions.RedisError),
    ):
        client.get(MINE[4])
