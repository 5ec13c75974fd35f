"""Access to the archive that the settings name, with its schema up to date."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archive.store import Store, migrate
from service.settings import Settings


@asynccontextmanager
async def open_archive(settings: Settings) -> AsyncIterator[Store]:
    """Migrate and open the archive; close it at the end of the block.

    Raises:
        Unavailable: If the database does not answer.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    await migrate(settings.database)
    store = await Store.open(settings.database)
    try:
        yield store
    finally:
        await store.close()
