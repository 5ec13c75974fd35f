"""Hints of people for the models that write candidates."""

from sqlalchemy import delete, func, select

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import HintRecord, NewHint
from archive.store.engine import Database, select_record, upsert
from archive.tables import hints


class HintStore:
    """Hints of people."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, new: NewHint, *, most: int) -> HintRecord:
        """Store a hint. Idempotent by id.

        Args:
            new: The hint.
            most: Maximum number of hints of a search.

        Raises:
            RecordConflict: If the search is unknown, or has the maximum number of hints.
        """
        hint = HintRecord(**vars(new), created_at=now())
        async with self._database.write() as connection:
            row = (await connection.execute(select_record(hints, HintRecord).where(hints.c.id == new.id))).one_or_none()
            if row is not None:
                return HintRecord(**row._asdict())
            held = await connection.scalar(select(func.count()).where(hints.c.search == new.search))
            if (held or 0) >= most:
                raise RecordConflict(f"a search may have {most} hints; take one away first")
            await connection.execute(upsert(connection, hints).values(vars(hint)).on_conflict_do_nothing())
        return hint

    async def remove(self, search: str, id: str) -> None:
        """Remove a hint.

        Raises:
            RecordNotFound: If the search has no such hint.
        """
        statement = delete(hints).where(hints.c.search == search, hints.c.id == id)
        async with self._database.write() as connection:
            if not (await connection.execute(statement)).rowcount:
                raise RecordNotFound(f"there is no hint {id}")

    # Last, because from here on `list` means this method.
    async def list(self, search: str) -> list[HintRecord]:
        """Return the hints for a search, oldest first."""
        statement = select_record(hints, HintRecord).where(hints.c.search == search).order_by(hints.c.id)
        return await self._database.all(HintRecord, statement)
