"""The audit log is added to and read; the database itself refuses to change it."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from archive.errors import RecordConflict
from archive.store import Store
from archive.store.engine import Database
from tests.archive.access import new_entry


async def test_entries_come_newest_first(store: Store) -> None:
    for status, token in ((202, "t1"), (403, "t2"), (200, "t1")):
        await store.audit.add(new_entry(status=status, token=token))
    found = await store.audit.list()
    assert [entry.status for entry in found] == [200, 403, 202]
    assert [entry.status for entry in await store.audit.list(before=found[0].seq, limit=1)] == [403]
    assert [entry.status for entry in await store.audit.list(token="t1")] == [200, 202]


async def test_hostile_text_does_not_keep_an_entry_out(store: Store) -> None:
    await store.audit.add(new_entry(target="/\0\ud800", detail="\0"))
    (entry,) = await store.audit.list()
    assert entry.target == "/\ufffd?"


@pytest.mark.parametrize("change", ["DELETE FROM audit", "UPDATE audit SET status = 200"])
async def test_an_entry_stays_as_it_is(database_url: str, store: Store, change: str) -> None:
    await store.audit.add(new_entry(status=403))
    database = Database.open(database_url)
    with pytest.raises(RecordConflict, match="append-only"):
        async with database.write() as connection:
            await connection.execute(text(change))
    await database.close()
    assert [entry.status for entry in await store.audit.list()] == [403]


async def test_the_oldest_entries_can_be_removed_and_that_is_written_down(database_url: str, store: Store) -> None:
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    for days in (90, 60, 10):
        await store.audit.add(new_entry(at=moment - timedelta(days=days), status=days))
    removal = new_entry(at=moment, action="prune", status=200)
    assert await store.audit.prune(moment - timedelta(days=30), removal) == 2
    last, kept = await store.audit.list()
    assert (last.action, kept.status) == ("prune", 10) and last.detail.startswith("2 entries of before 2026-04-01")
    with pytest.raises(ValueError, match="must stay"):
        await store.audit.prune(moment + timedelta(days=1), removal)
    database = Database.open(database_url)
    with pytest.raises(RecordConflict, match="append-only"):
        async with database.write() as connection:
            await connection.execute(text("DELETE FROM audit"))
    await database.close()
    assert len(await store.audit.list()) == 2, "the guard is back"
