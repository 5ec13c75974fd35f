"""Counters of events, updated with every write, so that reading progress never counts candidates."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from archive.store.engine import upsert
from archive.tables import tallies


class CountedEvent(NamedTuple):
    """Counted event: an `event` (of `archive.progress`, or an outcome) that happened to an emitter's candidates."""

    search: str
    device: str
    emitter: str
    event: str


async def count_event(connection: AsyncConnection, search: str, emitter: str, event: str, device: str = "") -> None:
    """Count one event, in the caller's transaction."""
    await count_events(connection, {CountedEvent(search, device, emitter, event): 1})


async def count_events(connection: AsyncConnection, happened: Mapping[CountedEvent, int]) -> None:
    """Count events, in the caller's transaction. The order is always the same, so that two never deadlock."""
    if not happened:
        return
    statement = upsert(connection, tallies)
    count = tallies.c["count"] + statement.excluded["count"]
    statement = statement.on_conflict_do_update(index_elements=list(CountedEvent._fields), set_={"count": count})
    await connection.execute(statement, [{**key._asdict(), "count": happened[key]} for key in sorted(happened)])
