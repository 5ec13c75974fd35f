"""Whatever ended is learned from, once: as it ends, or at the next start."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from archive.records import SearchState
from archive.store import Store
from service.events import EventBus, SearchChanged
from service.knowledge import background as subject
from service.knowledge.background import ENDED, KnowledgeLearner
from tests.archives import opened
from tests.service.lineages import SEED, Made, stored

GAINED = Made("gained", 8.0)


@pytest.fixture
async def events(store: Store) -> AsyncIterator[EventBus]:
    events = EventBus()
    learning = KnowledgeLearner(store, events)
    learning.start()
    yield events
    await learning.stop()


async def until(holds: Callable[[], object]) -> None:
    """Wait for something asynchronous to become true."""
    for _ in range(200):
        if await holds():  # type: ignore[misc]
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


async def successes(store: Store) -> int:
    return sum(entry.successes for entry in await store.knowledge.list())


async def test_a_search_that_ends_is_learned_from(store: Store, events: EventBus) -> None:
    search = await stored(store, (SEED, GAINED), state=SearchState.RUNNING)
    await store.searches.set_state(search.id, SearchState.DONE)
    events.publish(SearchChanged(search=search.id, state="done"))
    await until(lambda: store.knowledge.list())
    events.publish(SearchChanged(search=search.id, state="done"))
    events.publish(SearchChanged(search="gone", state="stopped"))
    other = await stored(store, (SEED, GAINED), state=SearchState.STOPPED)
    events.publish(SearchChanged(search=other.id, state="stopped"))
    await until(lambda: two(store))
    assert await successes(store) == 2


async def two(store: Store) -> bool:
    return await successes(store) == 2


async def test_searches_that_ended_while_nobody_looked_are_found(store: Store) -> None:
    missed = [await stored(store, (SEED, GAINED), state=state) for state in ENDED]
    await stored(store, (SEED, GAINED), state=SearchState.FAILED)
    learning = KnowledgeLearner(store, EventBus())
    await learning.catch_up()
    assert await store.knowledge.undistilled(ENDED) == []
    assert await successes(store) == len(missed)


async def test_what_cannot_be_read_is_passed_over(store: Store, tmp_path: Path) -> None:
    search = await stored(store, (SEED, GAINED))
    engine = create_engine(f"sqlite:///{tmp_path / 'reef.db'}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE reports SET document = '{}'"))
    engine.dispose()
    await KnowledgeLearner(store, EventBus()).catch_up()
    assert await store.knowledge.undistilled(ENDED) == []
    assert await store.knowledge.list() == []
    assert search.state is SearchState.DONE


async def test_it_ends_with_the_bus_and_waits_for_an_archive_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "PAUSE_S", 0.01)
    nowhere = await _unmigrated(tmp_path)
    events = EventBus()
    learning = KnowledgeLearner(nowhere, events)
    learning.start()
    await asyncio.sleep(0.1)
    await learning.stop()
    await nowhere.close()
    (tmp_path / "other").mkdir()
    async with opened(tmp_path / "other") as store:
        closed = EventBus()
        closed.close()
        await asyncio.wait_for(KnowledgeLearner(store, closed).run(), timeout=5)
        assert await store.knowledge.list() == []


async def _unmigrated(folder: Path) -> Store:
    return await Store.open(f"sqlite+aiosqlite:///{folder / 'empty.db'}")
