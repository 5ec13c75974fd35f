"""Bundles by content: variants with the same plans share one stored bundle."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordNotFound
from archive.records import BundleRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import bundles


class BundleStore:
    """Traced bundles."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def readings(self, identity: str) -> tuple[Mapping[str, Any], ...]:
        """Return the readings of one bundle, one mapping per plan, without its long document.

        Raises:
            RecordNotFound: If none has that identity.
        """
        async with self._database.read() as connection:
            found: tuple[Mapping[str, Any], ...] | None = await connection.scalar(
                select(bundles.c.readings).where(bundles.c.identity == identity)
            )
        if found is None:
            raise RecordNotFound(f"there is no bundle {identity}")
        return found

    async def get(self, identity: str) -> BundleRecord:
        """Return one bundle with its readings.

        Raises:
            RecordNotFound: If none has that identity.
        """
        statement = select_record(bundles, BundleRecord).where(bundles.c.identity == identity)
        return await self._database.one(BundleRecord, statement, f"there is no bundle {identity}")

    async def replace(self, records: Iterable[BundleRecord]) -> None:
        """Store a trusted worker's bundles in place of those of untrusted workers. Idempotent."""
        async with self._database.write() as connection:
            await add_bundles(connection, records, sure=True)


async def add_bundles(connection: AsyncConnection, records: Iterable[BundleRecord], *, sure: bool) -> None:
    """Store bundles within the caller's transaction.

    Args:
        connection: Connection of the transaction.
        records: The traced bundles.
        sure: True if a trusted worker traced them: known bundles then get these documents and readings; otherwise they
            stay as they are. An identity covers neither the text of a kernel nor its readings.
    """
    told = {record.identity: record for record in records}
    if not told:
        return
    statement = upsert(connection, bundles)
    if sure:
        said = {"document": statement.excluded.document, "readings": statement.excluded.readings}
        statement = statement.on_conflict_do_update(index_elements=["identity"], set_=said)
    else:
        statement = statement.on_conflict_do_nothing()
    # Always in the same order, so that two transactions with the same bundles wait for each other and never deadlock.
    await connection.execute(statement, [{**vars(told[each]), "created_at": now()} for each in sorted(told)])
