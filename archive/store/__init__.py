"""The store: every query of the archive.

    store = await Store.open(url)
    placement = await store.elites.offer(offer)

All of it is asynchronous, runs on SQLite and PostgreSQL alike, and raises only `archive.errors`. Writes may be sent
twice: each is idempotent by the id, digest or job that it carries.
"""

from typing import Self

from archive.errors import ArchiveError
from archive.store.attempts import AttemptStore
from archive.store.audit import AuditStore
from archive.store.batches import BatchResult, ReportBatch
from archive.store.bundles import BundleStore
from archive.store.candidates import CandidateStore
from archive.store.dump import ArchiveDump
from archive.store.elites import EliteStore
from archive.store.engine import Database
from archive.store.exchanges import ExchangeStore
from archive.store.hints import HintStore
from archive.store.idempotency import IdempotencyStore
from archive.store.ids import IdStore
from archive.store.lineage import LineageStore
from archive.store.listings import ListingStore
from archive.store.llm_budgets import BudgetStore
from archive.store.migration import migrate
from archive.store.operators import OperatorStore
from archive.store.pins import PinStore
from archive.store.provisional import ProvisionalStore
from archive.store.rebinning import Rebinning, RebinningResult
from archive.store.remote_workers import RemoteWorkerStore
from archive.store.reports import ReportKey, ReportStore
from archive.store.retention import Retention
from archive.store.retraces import RetraceStore
from archive.store.search_leases import SearchLeaseStore
from archive.store.searches import SearchStore
from archive.store.sessions import SessionStore
from archive.store.tokens import TokenStore
from archive.store.views import ViewStore

__all__ = ["BatchResult", "RebinningResult", "ReportBatch", "ReportKey", "Store", "migrate"]


class Store:
    """One open archive, with one part per subject."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.ids = IdStore(database)
        self.operators = OperatorStore(database)
        self.searches = SearchStore(database)
        self.candidates = CandidateStore(database)
        self.bundles = BundleStore(database)
        self.reports = ReportStore(database)
        self.elites = EliteStore(database)
        self.provisional = ProvisionalStore(database)
        self.rebinning = Rebinning(database)
        self.copies = ArchiveDump(database)
        self.retraces = RetraceStore(database)
        self.retention = Retention(database)
        self.views = ViewStore(database)
        self.listings = ListingStore(database)
        self.exchanges = ExchangeStore(database)
        self.attempts = AttemptStore(database)
        self.spending = BudgetStore(database)
        self.lineage = LineageStore(database)
        self.search_leases = SearchLeaseStore(database)
        self.pins = PinStore(database)
        self.hints = HintStore(database)
        self.tokens = TokenStore(database)
        self.sessions = SessionStore(database)
        self.audit = AuditStore(database)
        self.replies = IdempotencyStore(database)
        self.remote_workers = RemoteWorkerStore(database)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open an archive: `sqlite+aiosqlite:///path` or `postgresql+psycopg://...`. It must have been migrated.

        Raises:
            DatabaseUnavailable: If the database does not answer.
        """
        store = cls(Database.open(url))
        try:
            await store.ping()
        except ArchiveError:
            await store.close()
            raise
        return store

    def batch(self) -> ReportBatch:
        """Return a batch for the reads and writes of a few reports."""
        return ReportBatch(self._database)

    async def close(self) -> None:
        """Close every connection."""
        await self._database.close()

    async def ping(self) -> None:
        """Ask the database for an answer.

        Raises:
            DatabaseUnavailable: If there is none.
        """
        await self._database.ping()
