"""Pins: cells and candidates that people prefer as parents."""

from sqlalchemy import delete, func, select

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewPin, PinRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import pins


class PinStore:
    """Pins of elites and cells."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, new: NewPin, *, most: int) -> PinRecord:
        """Store a pin. Idempotent: an equal pin is kept.

        Args:
            new: The pin.
            most: Maximum number of pins of a search.

        Raises:
            RecordConflict: If the search or the candidate is unknown, or the search has the maximum number of pins.
        """
        here = (pins.c.search == new.search, pins.c.device == new.device, pins.c.subject == new.subject)
        async with self._database.write() as connection:
            row = (await connection.execute(select_record(pins, PinRecord).where(*here))).one_or_none()
            if row is not None:
                return PinRecord(**row._asdict())
            held = await connection.scalar(select(func.count()).where(pins.c.search == new.search))
            if (held or 0) >= most:
                raise RecordConflict(f"a search may have {most} pins; take one away first")
            values = {**vars(new), "subject": new.subject, "created_at": now()}
            await connection.execute(upsert(connection, pins).values(values).on_conflict_do_nothing())
            row = (await connection.execute(select_record(pins, PinRecord).where(*here))).one()
        return PinRecord(**row._asdict())

    async def remove(self, search: str, id: str) -> None:
        """Remove a pin.

        Raises:
            RecordNotFound: If the search has no such pin.
        """
        statement = delete(pins).where(pins.c.search == search, pins.c.id == id)
        async with self._database.write() as connection:
            if not (await connection.execute(statement)).rowcount:
                raise RecordNotFound(f"there is no pin {id}")

    # Last, because from here on `list` means this method.
    async def list(self, search: str, device: str | None = None) -> list[PinRecord]:
        """Return the pins of a search, oldest first; only those on one device if it is given."""
        statement = select_record(pins, PinRecord).where(pins.c.search == search).order_by(pins.c.id)
        if device is not None:
            statement = statement.where(pins.c.device == device)
        return await self._database.all(PinRecord, statement)
