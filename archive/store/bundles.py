"""Bundles, by content: however many variants come to the same plans, they are kept once."""

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from archive.columns import now
from archive.errors import NotFound
from archive.records import BundleRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import bundles


class Bundles:
    """What was traced."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, identity: str) -> BundleRecord:
        """One bundle with its readings.

        Raises:
            NotFound: If none has that identity.
        """
        async with self._database.read() as connection:
            statement = select_record(bundles, BundleRecord).where(bundles.c.identity == identity)
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            raise NotFound(f"there is no bundle {identity}")
        return BundleRecord(**row._asdict())


async def add_bundles(connection: AsyncConnection, records: Iterable[BundleRecord]) -> None:
    """Keep bundles within the caller's transaction; known ones are left as they are."""
    # In one order everywhere, so that two transactions with the same bundles wait for each other and never deadlock.
    for record in sorted(records, key=lambda record: record.identity):
        values = {
            "identity": record.identity,
            "document": record.document,
            "readings": record.readings,
            "created_at": now(),
        }
        await connection.execute(upsert(connection, bundles).values(values).on_conflict_do_nothing())
