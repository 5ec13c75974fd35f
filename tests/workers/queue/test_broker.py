"""The porter as the service sees it; `test_hosted` goes the whole way."""

from collections.abc import AsyncIterator

import pytest
import redis

from tests.workers.queue.hosts import HOST, OTHER, admit, seat
from workers.errors import QueueUnavailable
from workers.queue import LeaseBroker
from workers.queue.broker import rules


@pytest.fixture
async def porter(redis_url: str) -> AsyncIterator[LeaseBroker]:
    porter = LeaseBroker(redis_url)
    yield porter
    for worker in await porter.users():
        await porter.dismiss(worker)
    await porter.close()


async def test_users_come_and_go(porter: LeaseBroker) -> None:
    assert await porter.users() == set()
    for _ in range(2):
        await admit(porter)
    await admit(porter, OTHER)
    assert await porter.users() == {HOST, OTHER}
    for _ in range(2):
        assert await porter.dismiss(HOST) == 0
    assert await porter.users() == {OTHER}


async def test_asks_that_cannot_be_read_are_let_go(porter: LeaseBroker, redis_url: str) -> None:
    assert await porter.asks([]) == [] and await porter.keep([]) == (set(), set())
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"reef:ask:{HOST}", "nonsense")
        client.set(f"reef:ask:{OTHER}", '{"number": 1, "mishap": "' + "x" * 100_000 + '"}')
        assert await porter.asks([seat(), seat(OTHER)]) == []
        client.set(f"reef:ask:{HOST}", '{"number": 1}')
    [(sat, ask)] = await porter.asks([seat(), seat(OTHER)])
    assert (sat.worker, ask.number, ask.wants) == (HOST, 1, True)
    assert not await porter.answer(sat, ask)


async def test_a_host_that_lives_is_seen(porter: LeaseBroker, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"reef:worker:{HOST}", "{}", px=5_000)
        assert await porter.keep([seat(), seat(OTHER)]) == ({HOST}, set())
        assert client.smembers("reef:workers") == {HOST.encode()}


async def test_a_service_that_may_not_manage_users_is_told(porter: LeaseBroker, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-acl")
        narrow = LeaseBroker(f"redis://narrow:secret@{redis_url.rpartition('@')[2]}")
        with pytest.raises(QueueUnavailable, match="may not manage users"):
            await narrow.users()
        await narrow.close()
        client.acl_deluser("narrow")


def test_no_rule_names_what_is_anothers() -> None:
    for rule in rules(HOST, "0" * 64):
        assert "*" not in rule and "@all" not in rule.replace("-@all", "")
        assert "~" not in rule or HOST in rule
