"""Candidates: proposed, traced, judged. Each step is one transaction that may be repeated."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, case, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.columns import now
from archive.errors import NotFound
from archive.progress import PROPOSED
from archive.records import (
    SEED_EMITTER,
    Candidate,
    CandidateState,
    NewCandidate,
    SearchCounts,
    Traced,
    TrialRecord,
    Variant,
    Verdict,
)
from archive.store.engine import Database, select_record, upsert
from archive.store.tallies import count_event
from archive.store.tenures import require_held
from archive.store.traces import add_traces
from archive.store.verdicts import add_verdicts, require_finite
from archive.tables import UNFINISHED, candidates, counters, parentages, variants

NOT_THE_CANDIDATES_FAULT = ("worker_lost", "trace_timeout", "trace_memory")
"""Outcomes that another machine or minute might not repeat: such a trace is not taken for an equal candidate's."""


class Candidates:
    """What was proposed, and what became of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewCandidate, *, holder: str | None = None) -> Candidate | None:
        """Store a proposal. Idempotent by id.

        Args:
            new: The proposal.
            holder: Who must hold its search's tenure; None if nobody need.

        Returns:
            The candidate, or None if its search has one with an equal digest; the proposal counts all the same.

        Raises:
            Conflict: If the search is unknown or run by another coordinator, or has another candidate of that ordinal.
        """
        async with self._database.write() as connection:
            earlier = await _find(connection, new.id)
            if earlier is not None:
                return earlier
            await require_held(connection, new.search, holder)
            await _count_children(connection, new.parents)
            stored = await _insert(connection, new)
            if stored is not None and new.parents:
                kin = [{"parent": parent, "child": new.id} for parent in sorted(set(new.parents))]
                await connection.execute(parentages.insert(), kin)
            await _count_proposal(connection, new, stored=stored is not None)
            return stored

    async def get(self, id: str) -> Candidate:
        """One candidate.

        Raises:
            NotFound: If there is none.
        """
        async with self._database.read() as connection:
            found = await _find(connection, id)
        if found is None:
            raise NotFound(f"there is no candidate {id}")
        return found

    async def unfinished(self, search: str) -> list[Candidate]:
        """Candidates that wait for a trace or a verdict, in the order they were proposed."""
        return await self._all(_of(search).where(UNFINISHED).order_by(candidates.c.ordinal))

    async def seeds(self, search: str) -> list[Candidate]:
        """The kernels that the operator brought along, in its order."""
        return await self._all(_of(search).where(candidates.c.emitter == SEED_EMITTER).order_by(candidates.c.ordinal))

    async def count(self, search: str) -> SearchCounts:
        """How many candidates a search has, and where they are.

        Raises:
            NotFound: If there is no such search.
        """
        async with self._database.read() as connection:
            statement = select_record(counters, SearchCounts).where(counters.c.search == search)
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            raise NotFound(f"there is no search {search}")
        return SearchCounts(**row._asdict())

    async def trials(self, search: str, emitter: str, limit: int = 64) -> list[TrialRecord]:
        """An emitter's judged proposals, newest first."""
        statement = (
            select(*(candidates.c[name] for name in ("id", "note", "outcome", "objective", "parents")))
            .where(
                candidates.c.search == search,
                candidates.c.emitter == emitter,
                candidates.c.state == CandidateState.JUDGED,
            )
            .order_by(candidates.c.ordinal.desc())
            .limit(limit)
        )
        async with self._database.read() as connection:
            return [TrialRecord(*row) for row in await connection.execute(statement)]

    async def find_traced(self, trace_key: str) -> Candidate | None:
        """A candidate of any search whose trace holds for every candidate with this key, or None."""
        statement = (
            select_record(candidates, Candidate)
            .where(
                candidates.c.trace_key == trace_key,
                candidates.c.state != CandidateState.QUEUED,
                candidates.c.outcome.is_(None) | candidates.c.outcome.not_in(NOT_THE_CANDIDATES_FAULT),
            )
            .limit(1)
        )
        found = await self._all(statement)
        return found[0] if found else None

    async def save_trace(self, id: str, traced: Traced) -> None:
        """Keep what came out of a trace: variants, and their bundles. Idempotent.

        With a bundle to judge the candidate becomes traced. Without one it stays queued until `judge`: a crash between
        the two repeats the trace, and loses no verdict.

        Raises:
            Conflict: If the candidate is unknown, or a variant names a bundle that is neither given nor known.
        """
        async with self._database.write() as connection:
            await add_traces(connection, {id: traced})

    async def variants(self, id: str) -> list[Variant]:
        """A candidate's variants by index; none before its trace."""
        statement = select_record(variants, Variant).where(variants.c.candidate == id).order_by(variants.c.index)
        async with self._database.read() as connection:
            return [Variant(**row._asdict()) for row in await connection.execute(statement)]

    async def judge(
        self,
        id: str,
        outcome: str,
        reason: str,
        line: int | None,
        objective: float | None,
        objectives: Mapping[str, float] | None = None,
    ) -> bool:
        """Give a candidate its verdict, the outcome of its best variant. The first verdict stays.

        Args:
            id: The candidate.
            outcome: Of its best variant.
            reason: Why, where it is not correct.
            line: Of the source, where the reason has one.
            objective: On the search's first device.
            objectives: On each device on which a variant is correct.

        Returns:
            True if this was the first.

        Raises:
            NotFound: If there is no such candidate.
            ValueError: If an objective is not finite.
        """
        verdict = Verdict(id, outcome, reason, line, objective, dict(objectives or {}))
        require_finite(verdict)
        async with self._database.write() as connection:
            first = await add_verdicts(connection, [verdict])
            if not first and await _find(connection, id) is None:
                raise NotFound(f"there is no candidate {id}")
            return bool(first)

    async def _all(self, statement: Select[Any]) -> list[Candidate]:
        async with self._database.read() as connection:
            return [Candidate(**row._asdict()) for row in await connection.execute(statement)]

    # Last, because from here on `list` means this method.
    async def list(
        self,
        search: str,
        *,
        limit: int = 100,
        before: str | None = None,
        outcome: str | None = None,
        emitter: str | None = None,
    ) -> list[Candidate]:
        """A search's candidates, newest first.

        Args:
            search: Which search.
            limit: Most to return.
            before: Only those proposed before the candidate of this id.
            outcome: Only those judged so.
            emitter: Only those that it proposed.
        """
        statement = _of(search).order_by(candidates.c.ordinal.desc()).limit(limit)
        if before is not None:
            ordinal = select(candidates.c.ordinal).where(candidates.c.id == before).scalar_subquery()
            statement = statement.where(candidates.c.ordinal < ordinal)
        if outcome is not None:
            statement = statement.where(candidates.c.outcome == outcome)
        if emitter is not None:
            statement = statement.where(candidates.c.emitter == emitter)
        return await self._all(statement)


def _of(search: str) -> Select[Any]:
    return select_record(candidates, Candidate).where(candidates.c.search == search)


async def _find(connection: AsyncConnection, id: str) -> Candidate | None:
    row = (await connection.execute(select_record(candidates, Candidate).where(candidates.c.id == id))).one_or_none()
    return None if row is None else Candidate(**row._asdict())


async def _insert(connection: AsyncConnection, new: NewCandidate) -> Candidate | None:
    """Store the row, unless its search has the digest."""
    candidate = Candidate(
        **vars(new),
        state=CandidateState.QUEUED,
        outcome=None,
        reason="",
        line=None,
        objective=None,
        objectives={},
        stages_s={},
        created_at=now(),
    )
    statement = (
        upsert(connection, candidates)
        .values({**vars(candidate), "children": 0})
        .on_conflict_do_nothing(index_elements=["search", "digest"])
        .returning(candidates.c.id)
    )
    return candidate if await connection.scalar(statement) is not None else None


async def _count_children(connection: AsyncConnection, parents: tuple[str, ...]) -> None:
    # One by one in the order of ids, so that two proposals with the same parents never deadlock.
    for parent in sorted(set(parents)):
        row = update(candidates).where(candidates.c.id == parent)
        await connection.execute(row.values(children=candidates.c.children + 1))


async def _count_proposal(connection: AsyncConnection, new: NewCandidate, *, stored: bool) -> None:
    proposals = case((counters.c.proposals <= new.ordinal, new.ordinal + 1), else_=counters.c.proposals)
    row = update(counters).where(counters.c.search == new.search)
    await connection.execute(row.values(proposals=proposals, candidates=counters.c.candidates + int(stored)))
    await count_event(connection, new.search, new.emitter, PROPOSED)
