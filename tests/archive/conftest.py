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
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY"))
    return url


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An open archive with nothing in it."""
    opened = await Store.open(database_url)
    yield opened
    await opened.close()
