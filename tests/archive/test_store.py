"""The store as a whole: opened, asked, closed."""

import asyncio
from pathlib import Path

import pytest

from archive.errors import DatabaseUnavailable
from archive.store import Store
from tests.archive.samples import DEVICE, stored_search


async def test_what_is_stored_is_there_after_a_restart(database_url: str) -> None:
    first = await Store.open(database_url)
    search = await stored_search(first)
    await first.close()
    second = await Store.open(database_url)
    assert await second.searches.get(search.id) == search
    await second.close()


async def test_two_stores_on_one_database_see_each_other(database_url: str, store: Store) -> None:
    other = await Store.open(database_url)
    search = await stored_search(other)
    assert await store.searches.get(search.id) == search
    await other.close()


async def test_ping_answers(store: Store) -> None:
    await store.ping()
    assert (await store.elites.progress("no such search", DEVICE, 1)).elites == 0


async def test_a_database_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'no such folder' / 'archive.db'}")
    with pytest.raises(DatabaseUnavailable):
        await Store.open(f"postgresql+psycopg://postgres@/archive?host={tmp_path}")
    await asyncio.sleep(0.5)  # aiosqlite's thread still has to tell the loop that it ends


async def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(ValueError, match="sqlite or postgresql"):
        await Store.open("mysql://localhost/archive")
