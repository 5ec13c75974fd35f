"""A coordinator keeps what it holds, takes what nobody holds, and stops in time when it cannot renew."""

import asyncio
from pathlib import Path

import pytest

from archive.records import SearchState
from archive.store import Store
from service.scheduler import leases
from service.scheduler.leases import SearchLeases
from tests.archive.samples import stored_search


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    monkeypatch.setattr(leases, "MARGIN_S", 0.1)


async def until(search_leases: SearchLeases, expected: set[str]) -> None:
    async with asyncio.timeout(10):
        while search_leases.held != expected:
            await asyncio.sleep(0.02)


async def test_searches_are_held_by_one_and_go_to_the_other_when_it_lets_go(store: Store) -> None:
    first, second = SearchLeases(store, alone=False), SearchLeases(store, alone=False)
    search = (await stored_search(store)).id
    await first.refresh()
    await second.refresh()
    assert (first.held, second.held) == ({search}, frozenset())
    assert await first.take(search) and not await second.take(search)
    second.start()
    await first.stop()
    await until(second, {search})
    await second.stop()
    held = await store.search_leases.get(search)
    assert held is not None and held.holder == ""


async def test_one_that_dies_loses_its_searches_after_a_term(store: Store) -> None:
    search = (await stored_search(store)).id
    dead, living = SearchLeases(store, alone=False, term_s=0.5), SearchLeases(store, alone=False, term_s=0.5)
    assert await dead.take(search)
    living.start()
    await until(living, {search})
    assert dead.held == frozenset()
    await asyncio.sleep(0.06)
    await dead.refresh()
    assert dead.held == frozenset()
    await living.stop()


async def test_renewing_goes_on_beside_other_work(store: Store) -> None:
    search = (await stored_search(store)).id
    busy = SearchLeases(store, alone=False, term_s=2.0)
    busy.start()
    await until(busy, {search})
    await asyncio.sleep(2.5)
    other = SearchLeases(store, alone=False, term_s=2.0)
    assert busy.held == {search} and not await other.take(search)
    await busy.stop()


async def test_without_a_database_nothing_is_held_for_longer_than_a_term(tmp_path: Path, store: Store) -> None:
    search = (await stored_search(store)).id
    search_leases = SearchLeases(store, alone=False, term_s=0.4)
    assert await search_leases.take(search) and search_leases.held == {search}
    await asyncio.sleep(0.35)
    assert search_leases.held == frozenset()


async def test_who_is_alone_goes_on_at_once_where_an_earlier_life_ended(store: Store) -> None:
    search = (await stored_search(store)).id
    assert await SearchLeases(store, alone=True).take(search)
    again = SearchLeases(store, alone=True)
    await again.refresh()
    assert again.held == {search}


async def test_ended_searches_are_not_taken(store: Store) -> None:
    search = (await stored_search(store)).id
    await store.searches.set_state(search, SearchState.STOPPED)
    assert not await SearchLeases(store, alone=False).take(search)


async def test_many_free_searches_are_shared(store: Store) -> None:
    searches = {(await stored_search(store)).id for _ in range(leases.TAKEN_AT_ONCE + 3)}
    first, second = SearchLeases(store, alone=False), SearchLeases(store, alone=False)
    await first.refresh()
    await second.refresh()
    assert first.held | second.held == searches and len(second.held) == 3


async def test_one_that_joins_gets_its_share_and_no_search_is_held_twice(store: Store) -> None:
    searches = {(await stored_search(store)).id for _ in range(7)}
    first, second = SearchLeases(store, alone=False), SearchLeases(store, alone=False)
    await first.refresh()
    assert first.held == searches
    for _ in range(3):
        await second.refresh()
        await asyncio.sleep(0.06)
        await first.refresh()
        await first.share(sorted(searches))
        assert not first.held & second.held
        await asyncio.sleep(0.06)
    await second.refresh()
    assert (len(first.held), len(second.held)) == (4, 3) and first.held | second.held == searches
    await second.share(sorted(searches))
    await first.share(sorted(searches))
    assert (len(first.held), len(second.held)) == (4, 3), "who has a fair share keeps it"
    await second.stop()
    await asyncio.sleep(0.06)
    await first.refresh()
    assert first.held == searches


async def test_only_what_may_be_spared_is_let_go(store: Store) -> None:
    searches = sorted([(await stored_search(store)).id for _ in range(4)])
    first, second = SearchLeases(store, alone=False), SearchLeases(store, alone=False)
    await first.refresh()
    await second.refresh()
    await asyncio.sleep(0.06)
    await first.refresh()
    await first.share(searches[:1])
    assert first.held == set(searches[1:])


async def test_who_is_alone_shares_nothing(store: Store) -> None:
    searches = sorted([(await stored_search(store)).id for _ in range(4)])
    await store.search_leases.attend("another", 5.0)
    alone = SearchLeases(store, alone=True)
    await alone.refresh()
    await alone.share(searches)
    assert alone.held == set(searches)
