"""The audit log: entries are added and read, and the database refuses to change them.

The owner of the database may remove the oldest ones, and the removal is an entry itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from sqlalchemy import delete, insert, text
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.records import AuditRecord, NewAuditRecord
from archive.store.engine import Database, select_record
from archive.tables import audit


class AuditStore:
    """Audit log of changes and refusals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: NewAuditRecord) -> None:
        """Add an entry."""
        async with self._database.write() as connection:
            await connection.execute(insert(audit).values(vars(entry)))

    async def prune(self, before: datetime, entry: NewAuditRecord) -> int:
        """Remove the entries older than a time, and add an entry about it. Returns their number.

        This is the only way around the trigger that protects the log: it is disabled and enabled again within the
        transaction. Only the owner of the database can do that, and could as well drop the table.

        Raises:
            ValueError: If the new entry would be removed as well.
        """
        if entry.at < before:
            raise ValueError("the entry about the removal must stay")
        async with self._database.write() as connection:
            async with _unguarded(connection):
                removed = (await connection.execute(delete(audit).where(audit.c.at < before))).rowcount
            detail = f"{removed} entries of before {before.isoformat()} removed"
            await connection.execute(insert(audit).values({**vars(entry), "detail": detail}))
        return removed

    # Last, because from here on `list` means this method.
    async def list(self, *, limit: int = 50, before: int | None = None, token: str | None = None) -> list[AuditRecord]:
        """Return entries, newest first.

        Args:
            limit: Maximum number of entries.
            before: Only those older than the entry of this `seq`.
            token: Only those of one token.
        """
        statement = select_record(audit, AuditRecord).order_by(audit.c.seq.desc()).limit(limit)
        if before is not None:
            statement = statement.where(audit.c.seq < before)
        if token is not None:
            statement = statement.where(audit.c.token == token)
        return await self._database.all(AuditRecord, statement)


@asynccontextmanager
async def _unguarded(connection: AsyncConnection) -> AsyncIterator[None]:
    """Disable the trigger that protects the log, for the caller's transaction; a rollback enables it too."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("ALTER TABLE audit DISABLE TRIGGER audit_append_only"))
        yield
        await connection.execute(text("ALTER TABLE audit ENABLE TRIGGER audit_append_only"))
        return
    guard = await connection.scalar(text("SELECT sql FROM sqlite_master WHERE name = 'audit_no_delete'"))
    await connection.execute(text("DROP TRIGGER audit_no_delete"))
    yield
    await connection.exec_driver_sql(str(guard))
