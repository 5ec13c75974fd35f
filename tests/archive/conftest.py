"""The archive's suite runs over SQLite and PostgreSQL alike."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text

from archive.store import Store, migrate
from archive.tables import metadata
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy."""
    path = tmp_path_factory.mktemp("template") / "archive.db"
    asyncio.run(migrate(f"sqlite+aiosqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    """A migrated PostgreSQL database, used by one test after the other."""
    url = postgres.url(postgres.create_database())
    asyncio.run(migrate(url))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated, empty database."""
    if request.param == "sqlite":
        path = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "archive.db")
        return f"sqlite+aiosqlite:///{path}"
    url: str = request.getfixturevalue("postgres_url")
    empty(url)
    return url


def empty(url: str) -> None:
    """Delete all rows of a PostgreSQL database and restart its sequences: 2 ms, where TRUNCATE takes 40."""
    tables = [f"DELETE FROM {name}" for name in metadata.tables]
    restart = "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences"
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("; ".join(["SET LOCAL session_replication_role = replica", *tables, restart])))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An open archive with nothing in it."""
    opened = await Store.open(database_url)
    yield opened
    await opened.close()
