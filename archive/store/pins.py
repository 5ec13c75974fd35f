"""Pins: cells and candidates that people want searches to go on from."""

from sqlalchemy import delete, func, select

from archive.columns import now
from archive.errors import Conflict, NotFound
from archive.records import NewPin, Pin
from archive.store.engine import Database, select_record, upsert
from archive.tables import pins


class Pins:
    """What is pinned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, new: NewPin, *, most: int) -> Pin:
        """Keep a pin. Idempotent: what is pinned already keeps the pin that it has.

        Args:
            new: What to pin.
            most: Pins that a search may have.

        Raises:
            Conflict: If the search or the candidate is unknown, or the search has as many pins as it may.
        """
        here = (pins.c.search == new.search, pins.c.device == new.device, pins.c.subject == new.subject)
        async with self._database.write() as connection:
            row = (await connection.execute(select_record(pins, Pin).where(*here))).one_or_none()
            if row is not None:
                return Pin(**row._asdict())
            held = await connection.scalar(select(func.count()).where(pins.c.search == new.search))
            if (held or 0) >= most:
                raise Conflict(f"a search may have {most} pins; take one away first")
            values = {**vars(new), "subject": new.subject, "created_at": now()}
            await connection.execute(upsert(connection, pins).values(values).on_conflict_do_nothing())
            row = (await connection.execute(select_record(pins, Pin).where(*here))).one()
        return Pin(**row._asdict())

    async def remove(self, search: str, id: str) -> None:
        """Take a pin away.

        Raises:
            NotFound: If the search has no such pin.
        """
        statement = delete(pins).where(pins.c.search == search, pins.c.id == id)
        async with self._database.write() as connection:
            if not (await connection.execute(statement)).rowcount:
                raise NotFound(f"there is no pin {id}")

    # Last, because from here on `list` means this method.
    async def list(self, search: str, device: str | None = None) -> list[Pin]:
        """Pins of a search, oldest first; those on one device if it is given."""
        statement = select_record(pins, Pin).where(pins.c.search == search).order_by(pins.c.id)
        if device is not None:
            statement = statement.where(pins.c.device == device)
        async with self._database.read() as connection:
            return [Pin(**row._asdict()) for row in await connection.execute(statement)]
