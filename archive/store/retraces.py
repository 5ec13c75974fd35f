"""Second traces: stored once for all candidates whose traces must be equal."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from archive.errors import RecordConflict
from archive.records import Retrace
from archive.store.engine import Database, select_record, upsert
from archive.tables import retraces


class RetraceStore:
    """Second traces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, trace_key: str) -> Retrace | None:
        """Return the result of a second trace; None if there was none."""
        return (await self.of([trace_key])).get(trace_key)

    async def of(self, trace_keys: Collection[str]) -> dict[str, Retrace]:
        """Return the results of second traces by the key of their candidates' traces; missing ones are left out."""
        statement = select_record(retraces, Retrace).where(retraces.c.trace_key.in_(trace_keys))
        return {each.trace_key: each for each in await self._database.all(Retrace, statement)}


async def add_retraces(connection: AsyncConnection, new: Collection[Retrace]) -> None:
    """Store the results of second traces, within the caller's transaction. The first of each key stays.

    Raises:
        RecordConflict: If there is no such candidate, or another coordinator has stored a different result meanwhile.
    """
    if not new:
        return
    ordered = sorted(new, key=lambda retrace: retrace.trace_key)
    await connection.execute(upsert(connection, retraces).on_conflict_do_nothing(), [vars(each) for each in ordered])
    statement = select_record(retraces, Retrace).where(retraces.c.trace_key.in_([each.trace_key for each in ordered]))
    kept = {row.trace_key: row.bundles for row in await connection.execute(statement)}
    for each in ordered:
        if kept[each.trace_key] != each.bundles:
            raise RecordConflict(f"another repeat of the trace of {each.candidate} was stored meanwhile, and differs")
