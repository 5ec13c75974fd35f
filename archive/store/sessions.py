"""Sessions of the dashboard, without their secrets."""

from datetime import datetime

from sqlalchemy import delete, insert, update

from archive.records import SessionRecord
from archive.store.engine import Database, select_record
from archive.tables import sessions


class SessionStore:
    """Browser sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, session: SessionRecord) -> None:
        """Store a session, and remove expired ones.

        Raises:
            RecordConflict: If its digest is taken or its token unknown.
        """
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.expires_at <= session.created_at))
            await connection.execute(insert(sessions).values(vars(session)))

    async def find(self, digest: str) -> SessionRecord | None:
        """Return one session, expired or not."""
        statement = select_record(sessions, SessionRecord).where(sessions.c.digest == digest)
        return await self._database.first(SessionRecord, statement)

    async def touch(self, digest: str, at: datetime) -> None:
        """Record the use of a session."""
        statement = update(sessions).where(sessions.c.digest == digest, sessions.c.used_at < at).values(used_at=at)
        async with self._database.write() as connection:
            await connection.execute(statement)

    async def close(self, digest: str) -> None:
        """End a session. Idempotent."""
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.digest == digest))
