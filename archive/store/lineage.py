"""Lineage: candidates of a search in the order of their proposal, with their reports, page by page.

For passes over a whole search: each page costs a few queries, for any number of candidates, and no bundle's document is
read.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import select

from archive.records import CandidateRecord, CandidateState, Exchange, VariantRecord
from archive.store.engine import Database, select_record
from archive.tables import bundles, candidates, exchanges, reports, variants

Readings = tuple[Mapping[str, Any], ...]
"""Raw facts of a bundle, one mapping a plan."""


class LineageStore:
    """Parents and children of candidates."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def judged(self, search: str, *, after: int = -1, limit: int = 100) -> list[CandidateRecord]:
        """Return the evaluated candidates of a search, in the order of their proposal.

        Args:
            search: Id of the search.
            after: Only those whose ordinal is greater.
            limit: Maximum number of candidates.
        """
        statement = (
            select_record(candidates, CandidateRecord)
            .where(
                candidates.c.search == search,
                candidates.c.ordinal > after,
                candidates.c.state == CandidateState.JUDGED,
            )
            .order_by(candidates.c.ordinal)
            .limit(limit)
        )
        return await self._database.all(CandidateRecord, statement)

    async def candidates(self, ids: Collection[str]) -> dict[str, CandidateRecord]:
        """Return candidates by id; missing ones are left out."""
        statement = select_record(candidates, CandidateRecord).where(candidates.c.id.in_(ids))
        return {each.id: each for each in await self._database.all(CandidateRecord, statement)}

    async def reports(self, ids: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the documents of the reports on candidates, by candidate and job, oldest first."""
        columns = (reports.c.candidate, reports.c.job, reports.c.document)
        statement = select(*columns).where(reports.c.candidate.in_(ids))
        statement = statement.order_by(reports.c.candidate, reports.c.seq)
        found: dict[str, dict[str, str]] = {id: {} for id in ids}
        async with self._database.read() as connection:
            for candidate, job, document in await connection.execute(statement):
                found[candidate][job] = document
        return found

    async def variants(self, ids: Collection[str]) -> dict[tuple[str, int], VariantRecord]:
        """Return the variants of candidates, by candidate and index."""
        statement = select_record(variants, VariantRecord).where(variants.c.candidate.in_(ids))
        found = await self._database.all(VariantRecord, statement)
        return {(variant.candidate, variant.index): variant for variant in found}

    async def readings(self, identities: Collection[str]) -> dict[str, Readings]:
        """Return the readings of each plan of bundles, by identity."""
        statement = select(bundles.c.identity, bundles.c.readings).where(bundles.c.identity.in_(identities))
        async with self._database.read() as connection:
            return {row.identity: row.readings for row in await connection.execute(statement)}

    async def exchanges(self, search: str, found: Collection[CandidateRecord]) -> dict[str, list[Exchange]]:
        """Return the prompts and answers behind a search's candidates, in order, by candidate.

        These are the exchanges of its proposal, and those known to have led to it. A candidate without any is left out.
        """
        columns = select_record(exchanges, Exchange)
        proposal = columns.where(
            exchanges.c.search == search, exchanges.c.ordinal.in_([candidate.ordinal for candidate in found])
        )
        led = columns.where(exchanges.c.candidate.in_([candidate.id for candidate in found]))
        ids = {candidate.ordinal: candidate.id for candidate in found}
        wanted = set(ids.values())
        asked: dict[str, dict[str, Exchange]] = {}
        async with self._database.read() as connection:
            rows = [*await connection.execute(proposal), *await connection.execute(led)]
        for row in sorted(rows, key=lambda row: (row.ordinal, row.step, row.id)):
            for id in {ids.get(row.ordinal, ""), row.candidate or ""} & wanted:
                asked.setdefault(id, {})[row.id] = Exchange(**row._asdict())
        return {id: list(known.values()) for id, known in asked.items()}
