"""Second traces: kept once for all candidates whose traces must be equal."""

from collections.abc import Sequence

from archive.columns import now
from archive.records import Retrace
from archive.store.engine import Database, select_record, upsert
from archive.tables import retraces


class Retraces:
    """What was traced twice."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, trace_key: str, candidate: str, bundles: Sequence[str | None]) -> None:
        """Write down what a trusted worker found, by index of the variant. The first one counts, and stays.

        Raises:
            Conflict: If there is no such candidate.
        """
        row = {"trace_key": trace_key, "candidate": candidate, "bundles": tuple(bundles), "created_at": now()}
        async with self._database.write() as connection:
            await connection.execute(upsert(connection, retraces).values(row).on_conflict_do_nothing())

    async def find(self, trace_key: str) -> Retrace | None:
        """What a second trace gave, if there was one."""
        statement = select_record(retraces, Retrace).where(retraces.c.trace_key == trace_key)
        async with self._database.read() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return None if row is None else Retrace(**row._asdict())
