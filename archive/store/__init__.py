"""The store: every query the room answers.

    store = await Store.open(url)
    placement = await store.elites.offer(offer)

All of it is asynchronous, runs on SQLite and PostgreSQL alike, and raises only `archive.errors`. Writes may be sent
twice: each is idempotent by the id, digest or job it carries.
"""

from typing import Self

from archive.errors import ArchiveError
from archive.store.attempts import Attempts
from archive.store.audit import Audit
from archive.store.batches import Batch, Settled
from archive.store.bundles import Bundles
from archive.store.candidates import Candidates
from archive.store.copies import Copies
from archive.store.elites import Elites
from archive.store.engine import Database
from archive.store.exchanges import Exchanges
from archive.store.hints import Hints
from archive.store.hosts import Hosts
from archive.store.knowledge import Knowledge
from archive.store.lineage import Lineage
from archive.store.migration import migrate
from archive.store.operators import Operators
from archive.store.pins import Pins
from archive.store.rebinning import Rebinned, Rebinning
from archive.store.replies import Replies
from archive.store.reports import About, Reports
from archive.store.retention import Retention
from archive.store.retraces import Retraces
from archive.store.searches import Searches
from archive.store.sessions import Sessions
from archive.store.spending import Spending
from archive.store.tenures import Tenures
from archive.store.tokens import Tokens
from archive.store.views import Views

__all__ = ["About", "Batch", "Rebinned", "Settled", "Store", "migrate"]


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
        self.rebinning = Rebinning(database)
        self.copies = Copies(database)
        self.retraces = Retraces(database)
        self.retention = Retention(database)
        self.views = Views(database)
        self.knowledge = Knowledge(database)
        self.exchanges = Exchanges(database)
        self.attempts = Attempts(database)
        self.spending = Spending(database)
        self.lineage = Lineage(database)
        self.tenures = Tenures(database)
        self.pins = Pins(database)
        self.hints = Hints(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.audit = Audit(database)
        self.replies = Replies(database)
        self.hosts = Hosts(database)

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

    def batch(self) -> Batch:
        """A memory for what a handful of reports read and write."""
        return Batch(self._database)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._database.close()

    async def ping(self) -> None:
        """Ask the database for an answer.

        Raises:
            Unavailable: If there is none.
        """
        await self._database.ping()
