"""Attempts: unfinished proposals, and the results of one emitter's proposals."""

from typing import Any

from sqlalchemy import ColumnElement, case, func, select, update

from archive.progress import PROPOSED
from archive.records import Attempt, CandidateRecord, Exchange, ExchangeState, ExchangeSummary, OfferOutcome
from archive.store.counters import count_event
from archive.store.elites import present_axes
from archive.store.engine import Database, select_record
from archive.tables import candidates, counters, exchanges, placements

LIVE = (ExchangeState.ASKED, ExchangeState.WAITING, ExchangeState.CLAIMED, ExchangeState.ANSWERED)
"""States of an exchange that may still lead to a candidate."""


class AttemptStore:
    """Proposals of emitters that ask models, from their first prompt to their cells."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def asked(self, search: str) -> list[ExchangeSummary]:
        """Return all exchanges of a search without their texts, by ordinal and step."""
        statement = select_record(exchanges, ExchangeSummary).where(exchanges.c.search == search)
        found = await self._database.all(ExchangeSummary, statement)
        return sorted(found, key=lambda item: (item.ordinal, item.step))

    async def open(self, search: str) -> list[int]:
        """Return the ordinals of proposals with an exchange and no result yet, ascending."""
        statement = select(exchanges.c.ordinal).where(
            exchanges.c.search == search, exchanges.c.outcome.is_(None), exchanges.c.state.in_(LIVE)
        )
        async with self._database.read() as connection:
            return sorted(set((await connection.scalars(statement)).all()))

    async def begun(self, search: str, ordinal: int) -> list[Exchange]:
        """Return the open exchanges of one proposal by step; the latest of each step."""
        statement = select_record(exchanges, Exchange).where(
            exchanges.c.search == search, exchanges.c.ordinal == ordinal, exchanges.c.state.in_(LIVE)
        )
        found = await self._database.all(Exchange, statement)
        latest = {item.step: item for item in sorted(found, key=lambda item: item.id)}
        return [latest[step] for step in sorted(latest)]

    async def proposed(self, search: str, ordinal: int) -> CandidateRecord | None:
        """Return the candidate of an ordinal; None if there is none."""
        return await self._candidate(search, candidates.c.ordinal == ordinal)

    async def equal(self, search: str, digest: str) -> CandidateRecord | None:
        """Return the candidate of a search with this digest; None if there is none."""
        return await self._candidate(search, candidates.c.digest == digest)

    async def of_exchange(self, search: str, exchange: str) -> list[str]:
        """Return the ids of the candidates that are from one exchange, oldest first."""
        statement = select(candidates.c.id).where(candidates.c.search == search, candidates.c.exchange == exchange)
        async with self._database.read() as connection:
            return list((await connection.scalars(statement.order_by(candidates.c.ordinal))).all())

    async def pass_over(self, search: str, ordinal: int, emitter: str) -> None:
        """Count a proposal without a candidate, so that its ordinal is not proposed again."""
        proposals = case((counters.c.proposals <= ordinal, ordinal + 1), else_=counters.c.proposals)
        async with self._database.write() as connection:
            await connection.execute(update(counters).where(counters.c.search == search).values(proposals=proposals))
            await count_event(connection, search, emitter, PROPOSED)

    async def of(self, search: str, emitter: str) -> list[Attempt]:
        """Return an emitter's candidates, by ordinal."""
        statement = (
            select_record(candidates, Attempt)
            .where(candidates.c.search == search, candidates.c.emitter == emitter)
            .order_by(candidates.c.ordinal)
        )
        return await self._database.all(Attempt, statement)

    async def offers(self, search: str, emitter: str, last: int | None = None) -> list[OfferOutcome]:
        """Return the offers of an emitter's candidates to the present grid, oldest first: all, or the `last` ones."""
        before = placements.alias()
        same = [before.c[name] == placements.c[name] for name in ("search", "device", "axes_version", "cell")]
        earlier = select(before.c.objective).where(*same, before.c.revision == placements.c.revision - 1)
        held = func.coalesce(earlier.limit(1).scalar_subquery(), 0.0)
        # Only an offer that took a filled cell has a predecessor. For all others, most by far, a cell's whole history
        # would be read for nothing.
        gain = placements.c.objective - case((placements.c.revision > 1, held), else_=0.0)
        statement = (
            select(placements.c.candidate, placements.c.device, placements.c.cell, placements.c.revision, gain)
            .where(placements.c.search == search, placements.c.emitter == emitter)
            .where(placements.c.axes_version == present_axes(search))
            .order_by(placements.c.seq.desc())
            .limit(last)
        )
        async with self._database.read() as connection:
            rows: list[Any] = list(reversed((await connection.execute(statement)).all()))
        return [
            OfferOutcome(candidate, device, cell, None if revision is None else gained, revision == 1)
            for candidate, device, cell, revision, gained in rows
        ]

    async def _candidate(self, search: str, which: ColumnElement[bool]) -> CandidateRecord | None:
        statement = select_record(candidates, CandidateRecord).where(candidates.c.search == search, which)
        return await self._database.first(CandidateRecord, statement)
