"""Migrating is safe from anywhere, any number of times."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

import migrations
from archive.errors import DatabaseUnavailable, UnreadableDump
from archive.store import Store, migrate
from archive.store.migration import migration_config
from tests.archive.samples import stored_search

PROCESSES = 3


async def test_an_empty_file_becomes_an_archive(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'with % and space.db'}"
    await migrate(url)
    store = await Store.open(url)
    assert await store.searches.list() == []
    await store.close()


async def test_a_second_migration_loses_nothing(database_url: str, store: Store) -> None:
    search = await stored_search(store)
    await migrate(database_url)
    assert await store.searches.get(search.id) == search


async def test_processes_may_migrate_at_once(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'archive.db'}"
    code = f"import asyncio; from archive.store import migrate; asyncio.run(migrate({url!r}))"
    running = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(PROCESSES)]
    results = [await asyncio.to_thread(process.communicate) for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, results
    store = await Store.open(url)
    assert await store.searches.list() == []
    await store.close()


async def test_a_database_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        await migrate(f"sqlite+aiosqlite:///{tmp_path / 'no such folder' / 'archive.db'}")


@pytest.mark.parametrize(
    ("revision", "remedy"), [("0009", "of commit c57166e .* first, then of this release"), ("9999", "a newer one")]
)
async def test_an_archive_of_an_unknown_schema_is_refused_and_left_as_it_is(
    database_url: str, store: Store, revision: str, remedy: str
) -> None:
    search = await stored_search(store)
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        own = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one()
        await connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    with pytest.raises(UnreadableDump, match=f"the archive's schema is {revision}, .*{remedy}"):
        await migrate(database_url)
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE alembic_version SET version_num = '{own}'"))
    await engine.dispose()
    await migrate(database_url)
    assert await store.searches.get(search.id) == search


def test_the_scripts_are_those_of_the_installed_package() -> None:
    location = migration_config("sqlite://").get_main_option("script_location")
    assert location is not None
    assert Path(location) == Path(migrations.__file__).parent
    assert (Path(location) / "versions" / "0015_baseline.py").exists()
