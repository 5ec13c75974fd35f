"""The audit log: entries are added and read, and the database refuses to change them."""

from sqlalchemy import insert

from archive.records import AuditEntry, NewAuditEntry
from archive.store.engine import Database, select_record
from archive.tables import audit


class Audit:
    """What was done and what was refused."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: NewAuditEntry) -> None:
        """Write an entry down."""
        async with self._database.write() as connection:
            await connection.execute(insert(audit).values(vars(entry)))

    # Last, because from here on `list` means this method.
    async def list(self, *, limit: int = 50, before: int | None = None, token: str | None = None) -> list[AuditEntry]:
        """Entries, newest first.

        Args:
            limit: Most to return.
            before: Only those older than the entry of this `seq`.
            token: Only those of one token.
        """
        statement = select_record(audit, AuditEntry).order_by(audit.c.seq.desc()).limit(limit)
        if before is not None:
            statement = statement.where(audit.c.seq < before)
        if token is not None:
            statement = statement.where(audit.c.token == token)
        async with self._database.read() as connection:
            rows = (await connection.execute(statement)).all()
        return [AuditEntry(**row._asdict()) for row in rows]
