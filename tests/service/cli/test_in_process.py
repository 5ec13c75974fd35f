"""A service inside a command shows what the archive holds, or works."""

from pathlib import Path

import pytest

from service.cli.in_process import serve_inside
from service.errors import Unavailable
from service.settings import Settings
from tests.service import records
from tests.service.cli.test_export import fill


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    await fill(tmp_path)
    return Settings(data_dir=tmp_path, local_workers=0)


async def test_who_looks_reads_the_archive_and_asks_no_queue(settings: Settings) -> None:
    async with serve_inside(settings, working=False) as reef:
        assert (await reef.search(records.SEARCH_ID)).operator == "double"
        with pytest.raises(Unavailable, match="queue"):
            await reef.progress(records.SEARCH_ID)


async def test_who_works_has_a_queue(settings: Settings) -> None:
    async with serve_inside(settings, working=True) as reef:
        assert (await reef.progress(records.SEARCH_ID)).search == records.SEARCH_ID
