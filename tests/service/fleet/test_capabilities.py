"""A device is served while a living worker judges on it; many who ask share a look."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.store import Store, migrate
from service.fleet import capabilities
from service.fleet.capabilities import Capabilities
from tests.archive.samples import offer, stored_candidate, stored_search
from workers.queue import Dispatcher, LeaseClient, QueueUnavailable


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    yield store
    await store.close()


async def test_devices_and_lanes_are_those_of_living_workers(
    redis_url: str, store: Store, dispatcher: Dispatcher
) -> None:
    for name, device in (("a", "h200"), ("b", "h200"), ("c", "model:sm_90")):
        LeaseClient(redis_url, name, device=device).announce()
    LeaseClient(redis_url, "d", target="sm_90").announce()
    here = Capabilities(store, dispatcher)
    assert await here.devices() == {"h200", "model:sm_90"}
    names = {queue.name for queue in (await here.queues()).trusted}
    assert {"h200:confirm", "model:sm_90:final", "sm_90:reserved-trace", "sm_90:final-trace"} <= names
    assert (await here.queues()).others == frozenset()


async def test_what_was_seen_is_told_for_a_while(
    redis_url: str, store: Store, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Capabilities(store, dispatcher)
    assert await asyncio.gather(*(here.devices() for _ in range(9))) == [frozenset()] * 9
    LeaseClient(redis_url, "a", device="h200").announce()
    assert await here.devices() == frozenset()
    monkeypatch.setattr(capabilities, "LOOK_AGAIN_S", 0.0)
    await asyncio.sleep(1.0)
    assert await here.devices() == {"h200"}


async def test_without_a_queue_nothing_is_told(store: Store) -> None:
    dispatcher = Dispatcher("redis://127.0.0.1:1")
    with pytest.raises(QueueUnavailable):
        await Capabilities(store, dispatcher).devices()
    await dispatcher.close()


async def test_a_class_is_unverified_until_it_has_an_elite(store: Store, dispatcher: Dispatcher) -> None:
    here = Capabilities(store, dispatcher)
    names = ("h100", "a10", "l4", "model:sm_86", "recorded:a10")
    assert await here.unverified(names) == {"a10", "l4"}
    search = (await stored_search(store)).id
    await store.elites.offer(offer(search, await stored_candidate(store, search), device="a10"))
    assert await here.unverified(names) == {"l4"}
