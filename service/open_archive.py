"""Access to the archive that the settings name, with its schema up to date."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archive.store import Store, migrate
from service.errors import InvalidInput
from service.settings import Settings


def make_data_dir(settings: Settings) -> None:
    """Make the data folder if it is missing, and check that the embedded database can be written there.

    Raises:
        InvalidInput: If that fails.
    """
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if settings.database_url is None:
            with tempfile.TemporaryFile(dir=folder):
                pass
    except FileExistsError:
        raise InvalidInput(f"{folder} is a file; name a folder that may be written", "REEF_DATA_DIR") from None
    except OSError as error:
        reason = (error.strerror or "unusable").lower()
        detail = f"{folder} cannot be made or written: {reason}; name a folder that may be written"
        raise InvalidInput(detail, "REEF_DATA_DIR") from None


@asynccontextmanager
async def open_archive(settings: Settings) -> AsyncIterator[Store]:
    """Migrate and open the archive; close it at the end of the block.

    Raises:
        InvalidInput: If the data folder cannot be made or written.
        Unavailable: If the database does not answer.
    """
    make_data_dir(settings)
    await migrate(settings.database)
    store = await Store.open(settings.database)
    try:
        yield store
    finally:
        await store.close()
