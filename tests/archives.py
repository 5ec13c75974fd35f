"""Archives for tests: the schema is made once in a test process, and copied from then on."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from alembic import command

from archive.store import Store
from archive.store.migration import migration_config


@cache
def empty_archive() -> bytes:
    """A SQLite file that every migration went over, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive.db"
        command.upgrade(migration_config(f"sqlite:///{path}"), "head")
        return path.read_bytes()


def archive_in(folder: Path) -> str:
    """URL of the archive of a data folder, which gets an empty one if it has none."""
    path = folder / "reef.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(empty_archive())
    return f"sqlite+aiosqlite:///{path}"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    """The archive of a data folder."""
    store = await Store.open(archive_in(folder))
    try:
        yield store
    finally:
        await store.close()
