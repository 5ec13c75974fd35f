"""Tallies: counts kept up with every write, so that progress never counts candidates."""

from sqlalchemy.ext.asyncio import AsyncConnection

from archive.store.engine import upsert
from archive.tables import tallies


async def count_event(connection: AsyncConnection, search: str, emitter: str, event: str, device: str = "") -> None:
    """Count one more `event` (of `archive.progress`, or an outcome) for an emitter, in the caller's transaction."""
    key = {"search": search, "device": device, "emitter": emitter, "event": event}
    statement = upsert(connection, tallies).values(**key, count=1)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=list(key), set_={"count": tallies.c["count"] + 1})
    )
