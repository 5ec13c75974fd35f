"""Transactions commit whole, and the database's errors become the archive's."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import exc, insert, select, text

from archive.column_types import now
from archive.errors import ArchiveError, DatabaseUnavailable, RecordConflict, Unstorable
from archive.records import OperatorRecord
from archive.store.engine import Database, select_record, translated
from archive.tables import operators


async def put(database: Database, digest: str) -> None:
    async with database.write() as connection:
        await connection.execute(insert(operators).values(digest=digest, name="n", document="{}", created_at=now()))


async def digests(database: Database) -> list[str]:
    async with database.read() as connection:
        return list((await connection.scalars(select(operators.c.digest).order_by(operators.c.digest))).all())


async def test_a_block_that_raises_writes_nothing(database_url: str) -> None:
    database = Database.open(database_url)
    with pytest.raises(ZeroDivisionError):
        async with database.write() as connection:
            await connection.execute(insert(operators).values(digest="a", name="n", document="", created_at=now()))
            raise ZeroDivisionError
    await put(database, "b")
    assert await digests(database) == ["b"]
    await database.close()


async def test_a_broken_constraint_is_a_conflict(database_url: str) -> None:
    database = Database.open(database_url)
    await put(database, "a")
    with pytest.raises(RecordConflict):
        await put(database, "a")
    await database.close()


async def test_a_statement_that_cannot_be_is_our_failure(database_url: str) -> None:
    database = Database.open(database_url)
    with pytest.raises(ArchiveError):
        async with database.read() as connection:
            await connection.execute(text("SELECT nonsense FROM nowhere"))
    await database.close()


@pytest.mark.parametrize(
    "raised, kind",
    [
        (exc.IntegrityError("", None, Exception()), RecordConflict),
        (exc.OperationalError("", None, Exception()), DatabaseUnavailable),
        (exc.InterfaceError("", None, Exception()), DatabaseUnavailable),
        (exc.TimeoutError("no connection became free"), DatabaseUnavailable),
        (exc.DataError("", None, Exception()), Unstorable),
        (OverflowError("Python int too large to convert to SQLite INTEGER"), Unstorable),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), Unstorable),
        (exc.ProgrammingError("", None, Exception()), ArchiveError),
    ],
)
def test_errors_are_translated(raised: Exception, kind: type[Exception]) -> None:
    with pytest.raises(ArchiveError) as caught, translated():
        raise raised
    assert type(caught.value) is kind
    assert caught.value.__cause__ is raised


async def test_writers_wait_for_each_other_and_readers_for_nobody(database_url: str) -> None:
    first, second = Database.open(database_url), Database.open(database_url)
    async with first.write() as connection:
        await connection.execute(insert(operators).values(digest="a", name="n", document="", created_at=now()))
        waiting = asyncio.create_task(put(second, "b"))
        await asyncio.sleep(0.1)
        assert await digests(second) in ([], ["b"])  # on SQLite the second writer waits; on PostgreSQL it need not
    await waiting
    assert await digests(first) == ["a", "b"]
    await first.close()
    await second.close()


async def test_sqlite_is_tuned(tmp_path: Path) -> None:
    database = Database.open(f"sqlite+aiosqlite:///{tmp_path / 'archive.db'}")
    names = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
    async with database.write() as connection:
        settings = [(await connection.execute(text(f"PRAGMA {name}"))).scalar_one() for name in names]
    assert settings == ["wal", 1, 10_000, 1]
    await database.close()


async def test_a_database_of_another_driver_is_opened_with_ours(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'archive.db'}")
    await database.ping()
    assert (tmp_path / "archive.db").exists()
    await database.close()


def test_a_record_selects_its_own_columns() -> None:
    assert [column.name for column in select_record(operators, OperatorRecord).selected_columns] == [
        "digest",
        "name",
        "document",
        "created_at",
    ]
