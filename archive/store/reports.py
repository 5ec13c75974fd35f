"""Reports: every verdict with its whole document, found by the bundle that it is about."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Select, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.records import NewReport
from archive.store.engine import Database, upsert
from archive.tables import counters, reports

INCONCLUSIVE = ("worker_lost", "not_interpretable")
"""Outcomes that say nothing about the bundle and are never reused; the latter is about a source alone."""

MEASURES = 16
"""Maximum number of reports on one bundle that are searched for a reusable one; a repeat directly follows its
original."""


@dataclass(frozen=True)
class ReportKey:
    """Key of equal reports: one is valid for the other's bundle."""

    operator: str
    bundle: str
    device: str
    protocol_version: int

    @classmethod
    def of(cls, new: NewReport) -> Self:
        """Return the key of a report."""
        return cls(new.operator, new.bundle, new.device, new.protocol_version)


class ReportStore:
    """Reports of judged bundles."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, new: NewReport, device_ms: int = 0) -> bool:
        """Store a report, and count its time. Returns True if it is new, False if its job has one already.

        Raises:
            RecordConflict: If its search or candidate is unknown.
        """
        async with self._database.write() as connection:
            statement = (
                upsert(connection, reports)
                .values({**vars(new), "created_at": now()})
                .on_conflict_do_nothing(index_elements=["job"])
                .returning(reports.c.seq)
            )
            fresh = await connection.scalar(statement) is not None
            if fresh and device_ms:
                count = update(counters).where(counters.c.search == new.search)
                await connection.execute(count.values(device_ms=counters.c.device_ms + device_ms))
            return fresh

    async def measures(self, about: ReportKey) -> list[str]:
        """Return the documents of the first `measure` reports on equal bundles, oldest first, except `INCONCLUSIVE`."""
        statement = _on(about).where(reports.c.kind == "measure").limit(MEASURES)
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def confirms(self, about: ReportKey) -> list[str]:
        """Return the documents of the `confirm` reports on equal bundles, oldest first, except `INCONCLUSIVE`."""
        statement = _on(about).where(reports.c.kind == "confirm")
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def finals(self, about: ReportKey) -> list[str]:
        """Return the documents of the `final` reports on equal bundles, oldest first, except `INCONCLUSIVE`."""
        statement = _on(about).where(reports.c.kind == "final")
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())

    async def finals_on(self, candidates: Collection[str]) -> list[str]:
        """Return the documents of the `final` reports on candidates, oldest first."""
        statement = select(reports.c.seq, reports.c.document).where(reports.c.candidate.in_(candidates))
        async with self._database.read() as connection:
            rows = (await connection.execute(statement.where(reports.c.kind == "final"))).all()
        return [document for _, document in sorted(rows)]

    async def known(self, jobs: Iterable[str]) -> frozenset[str]:
        """Return those jobs that have a report."""
        statement = select(reports.c.job).where(reports.c.job.in_(list(jobs)))
        async with self._database.read() as connection:
            return frozenset((await connection.scalars(statement)).all())

    async def of_candidate(self, candidate: str) -> list[str]:
        """Return the documents of a candidate's reports, oldest first."""
        statement = select(reports.c.document).where(reports.c.candidate == candidate).order_by(reports.c.seq)
        async with self._database.read() as connection:
            return list((await connection.scalars(statement)).all())


async def add_reports(connection: AsyncConnection, new: Iterable[NewReport], device_ms: Mapping[str, int]) -> None:
    """Store reports within the caller's transaction, except for jobs that have one, and count their time.

    Args:
        connection: Connection of the transaction.
        new: The reports.
        device_ms: Time of each, milliseconds by job.
    """
    given = {each.job: each for each in new}
    if not given:
        return
    rows = [{**vars(each), "created_at": now()} for each in given.values()]
    statement = upsert(connection, reports).on_conflict_do_nothing(index_elements=["job"]).returning(reports.c.job)
    took: Counter[str] = Counter()
    for job in (await connection.scalars(statement, rows)).all():
        took[given[job].search] += device_ms.get(job, 0)
    for search in sorted(search for search, spent in took.items() if spent):
        count = update(counters).where(counters.c.search == search)
        await connection.execute(count.values(device_ms=counters.c.device_ms + took[search]))


def is_reusable(new: NewReport) -> bool:
    """Return True if a report says something about its bundle."""
    return new.outcome not in INCONCLUSIVE


def _on(about: ReportKey) -> Select[Any]:
    """Select the documents that are valid for an equal bundle, oldest first."""
    return (
        select(reports.c.document)
        .where(
            *(reports.c[name] == value for name, value in vars(about).items()),
            reports.c.outcome.not_in(INCONCLUSIVE),
        )
        .order_by(reports.c.seq)
    )
