"""An archive to keep tokens and sessions in, and a time that is moved by hand."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from archive.store import Store, migrate


class Clock:
    """A time that is moved by hand."""

    at = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'archive.db'}"
    await migrate(url)
    opened = await Store.open(url)
    yield opened
    await opened.close()
