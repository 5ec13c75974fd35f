"""Hints: what people tell the models that write candidates."""

from sqlalchemy import delete, func, select

from archive.columns import now
from archive.errors import Conflict, NotFound
from archive.records import Hint, NewHint
from archive.store.engine import Database, select_record, upsert
from archive.tables import hints


class Hints:
    """What people said."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, new: NewHint, *, most: int) -> Hint:
        """Keep a hint. Idempotent by id.

        Args:
            new: What was said.
            most: Hints that a search may have.

        Raises:
            Conflict: If the search is unknown, or has as many hints as it may.
        """
        hint = Hint(**vars(new), created_at=now())
        async with self._database.write() as connection:
            row = (await connection.execute(select_record(hints, Hint).where(hints.c.id == new.id))).one_or_none()
            if row is not None:
                return Hint(**row._asdict())
            held = await connection.scalar(select(func.count()).where(hints.c.search == new.search))
            if (held or 0) >= most:
                raise Conflict(f"a search may have {most} hints; take one away first")
            await connection.execute(upsert(connection, hints).values(vars(hint)).on_conflict_do_nothing())
        return hint

    async def remove(self, search: str, id: str) -> None:
        """Take a hint away.

        Raises:
            NotFound: If the search has no such hint.
        """
        statement = delete(hints).where(hints.c.search == search, hints.c.id == id)
        async with self._database.write() as connection:
            if not (await connection.execute(statement)).rowcount:
                raise NotFound(f"there is no hint {id}")

    # Last, because from here on `list` means this method.
    async def list(self, search: str) -> list[Hint]:
        """Hints for a search, oldest first."""
        statement = select_record(hints, Hint).where(hints.c.search == search).order_by(hints.c.id)
        async with self._database.read() as connection:
            return [Hint(**row._asdict()) for row in await connection.execute(statement)]
