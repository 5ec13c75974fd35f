"""The store: every query the room answers.

    store = await Store.open(url)
    placement = await store.elites.offer(offer)

All of it is asynchronous, runs on SQLite and PostgreSQL alike, and raises only `archive.errors`. Writes may be sent
twice: each is idempotent by the id, digest or job it carries.
"""

from typing import Self

from archive.errors import ArchiveError
from archive.store.bundles import Bundles
from archive.store.candidates import Candidates
from archive.store.elites import Elites
from archive.store.engine import Database
from archive.store.migration import migrate
from archive.store.operators import Operators
from archive.store.reports import Reports
from archive.store.searches import Searches

__all__ = ["Store", "migrate"]


class Store:
    """One open archive, grouped by what is kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operators = Operators(database)
        self.searches = Searches(database)
        self.candidates = Candidates(database)
        self.bundles = Bundles(database)
        self.reports = Reports(database)
        self.elites = Elites(database)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open an archive: `sqlite+aiosqlite:///path` or `postgresql+psycopg://...`. It must have been migrated.

        Raises:
            Unavailable: If the database does not answer.
        """
        store = cls(Database.open(url))
        try:
            await store.ping()
        except ArchiveError:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Let go of every connection."""
        await self._database.close()

    async def ping(self) -> None:
        """Ask the database for an answer.

        Raises:
            Unavailable: If there is none.
        """
        await self._database.ping()
