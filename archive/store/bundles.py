"""Bundles, by content: however many variants come to the same plans, they are kept once."""

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
        """Readings of one bundle, one mapping a plan, without its long document.

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
        async with self._database.read() as connection:
            statement = select_record(bundles, BundleRecord).where(bundles.c.identity == identity)
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            raise RecordNotFound(f"there is no bundle {identity}")
        return BundleRecord(**row._asdict())

    async def replace(self, records: Iterable[BundleRecord]) -> None:
        """Keep what a trusted worker found about bundles, in place of what others said. Twice changes nothing."""
        async with self._database.write() as connection:
            await add_bundles(connection, records, sure=True)


async def add_bundles(connection: AsyncConnection, records: Iterable[BundleRecord], *, sure: bool) -> None:
    """Keep bundles within the caller's transaction.

    Args:
        connection: Of the transaction.
        records: What was traced.
        sure: Whether a trusted worker said so: known bundles then get these documents and readings, and stay as they
            are otherwise. An identity covers neither the text of a kernel nor its readings.
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
    # In one order everywhere, so that two transactions with the same bundles wait for each other and never deadlock.
    await connection.execute(statement, [{**vars(told[each]), "created_at": now()} for each in sorted(told)])
