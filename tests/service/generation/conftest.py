"""An archive for what is proposed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.store import Store
from tests.archives import opened


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(tmp_path) as store:
        yield store
