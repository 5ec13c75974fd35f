"""Reports: every verdict, whole, and found again by what it was about."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from sqlalchemy import Select, select, update

from archive.columns import now
from archive.records import NewReport
from archive.store.engine import Database, upsert
from archive.tables import counters, reports

LOST = "worker_lost"
"""The outcome that says nothing about the bundle, so that it is never reused."""

MEASURES = 16
"""Most reports on one bundle that are looked at for one to use again; a repeat comes right behind what it repeats."""


class Reports:
    """What was judged."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, new: NewReport, judging_ms: int = 0) -> bool:
        """Keep a report, and count what it took. True if it is new, False if its job has one already.

        Raises:
            Conflict: If its search or candidate is unknown.
        """
        async with self._database.write() as connection:
            statement = (
                upsert(connection, reports)
                .values({**asdict(new), "created_at": now()})
                .on_conflict_do_nothing(index_elements=["job"])
                .returning(reports.c.seq)
            )
            fresh = await connection.scalar(statement) is not None
            if fresh and judging_ms:
                count = update(counters).where(counters.c.search == new.search)
                await connection.execute(count.values(judging_ms=counters.c.judging_ms + judging_ms))
            return fresh

    async def measures(self, *, operator: str, bundle: str, device: str, protocol_version: int) -> list[str]:
        """Documents of the first `measure` reports on equal bundles, oldest first. Lost workers' do not count."""
        statement = (
            _about(operator, bundle, device, protocol_version).where(reports.c.kind == "measure").limit(MEASURES)
        )
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def confirms(self, *, operator: str, bundle: str, device: str, protocol_version: int) -> list[str]:
        """Documents of the `confirm` reports on equal bundles, oldest first. Lost workers' reports do not count."""
        statement = _about(operator, bundle, device, protocol_version).where(reports.c.kind == "confirm")
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def finals(self, *, operator: str, bundle: str, device: str, protocol_version: int) -> list[str]:
        """Documents of the `final` reports on equal bundles, oldest first. Lost workers' reports do not count."""
        statement = _about(operator, bundle, device, protocol_version).where(reports.c.kind == "final")
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def finals_on(self, candidates: Collection[str]) -> list[str]:
        """Documents of the `final` reports on candidates, oldest first."""
        statement = select(reports.c.seq, reports.c.document).where(reports.c.candidate.in_(candidates))
        async with self._database.read() as connection:
            rows = (await connection.execute(statement.where(reports.c.kind == "final"))).all()
        return [document for _, document in sorted(rows)]

    async def of_candidate(self, candidate: str) -> list[str]:
        """Documents of a candidate's reports, oldest first."""
        statement = select(reports.c.document).where(reports.c.candidate == candidate).order_by(reports.c.seq)
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())


def _about(operator: str, bundle: str, device: str, protocol_version: int) -> Select[Any]:
    """Documents of what holds for an equal bundle, oldest first."""
    return (
        select(reports.c.document)
        .where(
            reports.c.bundle == bundle,
            reports.c.device == device,
            reports.c.operator == operator,
            reports.c.protocol_version == protocol_version,
            reports.c.outcome != LOST,
        )
        .order_by(reports.c.seq)
    )
