"""The archive of the settings is made where there is none, and closed behind whoever used it."""

from pathlib import Path

import pytest

from archive.errors import ArchiveError
from service.errors import InvalidInput
from service.open_archive import open_archive
from service.settings import Settings


async def test_an_archive_is_made_where_there_is_none(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "new" / "data")
    for _ in range(2):
        async with open_archive(settings) as store:
            assert await store.searches.list() == []
    assert (settings.data_dir / "reef.db").is_file()


async def test_a_database_that_does_not_answer_is_said_to(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url=f"sqlite+aiosqlite:///{tmp_path / 'no such folder' / 'a.db'}")
    with pytest.raises(ArchiveError):
        async with open_archive(settings):
            raise AssertionError("it must not open")


@pytest.mark.parametrize("place", ["/proc/no-such-folder", "/proc", "file", "file/below"])
async def test_a_data_folder_that_cannot_be_used_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(data_dir=tmp_path / place)
    with pytest.raises(InvalidInput, match=str(settings.data_dir)) as caught:
        async with open_archive(settings):
            raise AssertionError("it must not open")
    assert caught.value.field == "REEF_DATA_DIR" and "name a folder that may be written" in caught.value.detail
