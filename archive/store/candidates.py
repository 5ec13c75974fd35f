"""Candidates: proposed, traced, judged. Each step is one transaction, which may be repeated."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, case, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordNotFound
from archive.progress import PROPOSED, SCREENED
from archive.records import (
    SEED_EMITTER,
    CandidateRecord,
    CandidateState,
    CandidateVerdict,
    NewCandidate,
    SearchCounts,
    TraceOutcome,
    TrialRecord,
    VariantRecord,
)
from archive.store.counters import CountedEvent, count_events
from archive.store.engine import Database, select_record, upsert
from archive.store.search_leases import require_held
from archive.store.traces import add_traces
from archive.store.verdicts import add_verdicts, require_finite
from archive.tables import UNFINISHED, candidate_parents, candidates, counters, variants

NOT_THE_CANDIDATES_FAULT = ("worker_lost", "trace_timeout", "trace_memory")
"""Outcomes that another attempt might not repeat: such a trace is not reused for equal candidates."""


class CandidateStore:
    """Candidates with their states and verdicts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, new: NewCandidate, *, holder: str | None = None, screened: Sequence[str] = ()
    ) -> CandidateRecord | None:
        """Store one proposal; as `add_all`."""
        (stored,) = await self.add_all([new], holder=holder, screened=screened)
        return stored

    async def add_all(
        self, new: Sequence[NewCandidate], *, holder: str | None = None, screened: Sequence[str] = ()
    ) -> list[CandidateRecord | None]:
        """Store proposals of one search in one transaction. Idempotent by id.

        Args:
            new: The proposals.
            holder: Id of the coordinator that must hold the search's lease; None to skip this check.
            screened: Emitters whose proposals were dropped in favour of these.

        Returns:
            The candidate of each proposal, or None if the search has one with an equal digest; such a proposal is
            counted too.

        Raises:
            RecordConflict: If the search is unknown or run by another coordinator, or has another candidate of that
                ordinal.
        """
        if not new:
            return []
        async with self._database.write() as connection:
            await require_held(connection, new[0].search, holder)
            stored = await _insert(connection, new)
            earlier = await _find_all(connection, [each.id for each in new if each.id not in stored])
            counted = [each for each in new if each.id not in earlier]
            await _count_children(connection, counted)
            kin = [{"parent": id, "child": each.id} for each in counted if each.id in stored for id in _parents(each)]
            if kin:
                await connection.execute(candidate_parents.insert(), kin)
            await _count_proposals(connection, counted, screened, len(stored))
            return [stored.get(each.id) or earlier.get(each.id) for each in new]

    async def get(self, id: str) -> CandidateRecord:
        """Return one candidate.

        Raises:
            RecordNotFound: If there is none.
        """
        async with self._database.read() as connection:
            found = await _find(connection, id)
        if found is None:
            raise RecordNotFound(f"there is no candidate {id}")
        return found

    async def unfinished(self, search: str) -> list[CandidateRecord]:
        """Return the candidates that wait for a trace or a verdict, in the order of their proposal."""
        return await self._all(_of(search).where(UNFINISHED).order_by(candidates.c.ordinal))

    async def seeds(self, search: str) -> list[CandidateRecord]:
        """Return the operator's seeds, in its order."""
        return await self._all(_of(search).where(candidates.c.emitter == SEED_EMITTER).order_by(candidates.c.ordinal))

    async def count(self, search: str) -> SearchCounts:
        """Count the candidates of a search by state.

        Raises:
            RecordNotFound: If there is no such search.
        """
        statement = select_record(counters, SearchCounts).where(counters.c.search == search)
        return await self._database.one(SearchCounts, statement, f"there is no search {search}")

    async def trials(self, search: str, emitter: str, limit: int = 64) -> list[TrialRecord]:
        """Return an emitter's evaluated proposals, newest first."""
        statement = (
            select(*(candidates.c[name] for name in ("id", "ordinal", "note", "outcome", "objective", "parents")))
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

    async def latest(self, search: str, limit: int) -> Sequence[str]:
        """Return the ids of evaluated candidates that have parents, newest first."""
        statement = (
            select(candidates.c.id)
            .where(
                candidates.c.search == search,
                candidates.c.state == CandidateState.JUDGED,
                candidates.c.emitter != SEED_EMITTER,
            )
            .order_by(candidates.c.ordinal.desc())
            .limit(limit)
        )
        async with self._database.read() as connection:
            return (await connection.scalars(statement)).all()

    async def known_digests(self, search: str, digests: Collection[str]) -> set[str]:
        """Return the digests that candidates of a search already have."""
        statement = select(candidates.c.digest).where(candidates.c.search == search, candidates.c.digest.in_(digests))
        async with self._database.read() as connection:
            return set((await connection.scalars(statement)).all())

    async def find_traced(self, trace_key: str) -> CandidateRecord | None:
        """Return a candidate whose trace is valid for every candidate with this key; None if there is none."""
        statement = (
            select_record(candidates, CandidateRecord)
            .where(
                candidates.c.trace_key == trace_key,
                candidates.c.state != CandidateState.QUEUED,
                candidates.c.outcome.is_(None) | candidates.c.outcome.not_in(NOT_THE_CANDIDATES_FAULT),
            )
            .limit(1)
        )
        found = await self._all(statement)
        return found[0] if found else None

    async def save_trace(self, id: str, traced: TraceOutcome) -> None:
        """Store the result of a trace: variants, and their bundles. Idempotent.

        With a bundle to judge the candidate becomes traced. Without one it stays queued until `judge`: a crash in
        between repeats the trace, and loses no verdict.

        Raises:
            RecordConflict: If the candidate is unknown, or a variant names a bundle that is neither given nor known.
        """
        async with self._database.write() as connection:
            await add_traces(connection, {id: traced})

    async def variants(self, id: str) -> list[VariantRecord]:
        """Return a candidate's variants by index; none before its trace."""
        statement = select_record(variants, VariantRecord).where(variants.c.candidate == id).order_by(variants.c.index)
        return await self._database.all(VariantRecord, statement)

    async def with_bundle(self, search: str, bundle: str) -> Sequence[VariantRecord]:
        """Return the variants of a search's candidates that came to a bundle."""
        statement = select_record(variants, VariantRecord).join(candidates, candidates.c.id == variants.c.candidate)
        statement = statement.where(variants.c.bundle == bundle, candidates.c.search == search)
        return await self._database.all(VariantRecord, statement)

    async def judge(
        self,
        id: str,
        outcome: str,
        reason: str,
        line: int | None,
        objective: float | None,
        objectives: Mapping[str, float] | None = None,
    ) -> bool:
        """Set a candidate's verdict, the outcome of its best variant. The first verdict stays.

        Args:
            id: The candidate.
            outcome: Outcome of its best variant.
            reason: Reason, if it is not correct.
            line: Line of the source that the reason is about, if there is one.
            objective: Objective on the search's first device.
            objectives: Objective on each device on which a variant is correct.

        Returns:
            True if this was the first verdict.

        Raises:
            RecordNotFound: If there is no such candidate.
            ValueError: If an objective is not finite.
        """
        verdict = CandidateVerdict(id, outcome, reason, line, objective, dict(objectives or {}))
        require_finite(verdict)
        async with self._database.write() as connection:
            first = await add_verdicts(connection, [verdict])
            if not first and await _find(connection, id) is None:
                raise RecordNotFound(f"there is no candidate {id}")
            return bool(first)

    async def _all(self, statement: Select[Any]) -> list[CandidateRecord]:
        return await self._database.all(CandidateRecord, statement)

    # Last, because from here on `list` means this method.
    async def list(
        self,
        search: str,
        *,
        limit: int = 100,
        before: str | None = None,
        outcome: str | None = None,
        emitter: str | None = None,
    ) -> list[CandidateRecord]:
        """Return a search's candidates, newest first.

        Args:
            search: Id of the search.
            limit: Maximum number of candidates.
            before: Only those proposed before the candidate of this id.
            outcome: Only those with this outcome.
            emitter: Only those of this emitter.
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
    return select_record(candidates, CandidateRecord).where(candidates.c.search == search)


async def _find(connection: AsyncConnection, id: str) -> CandidateRecord | None:
    return (await _find_all(connection, [id])).get(id)


async def _find_all(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, CandidateRecord]:
    if not ids:
        return {}
    rows = await connection.execute(select_record(candidates, CandidateRecord).where(candidates.c.id.in_(ids)))
    return {row.id: CandidateRecord(**row._asdict()) for row in rows}


def _parents(new: NewCandidate) -> list[str]:
    return sorted(set(new.parents))


async def _insert(connection: AsyncConnection, new: Sequence[NewCandidate]) -> dict[str, CandidateRecord]:
    """Store the candidates whose digests are new to their search. Returns those that were stored, by id."""
    found = {
        each.id: CandidateRecord(
            **vars(each),
            state=CandidateState.QUEUED,
            outcome=None,
            reason="",
            line=None,
            objective=None,
            objectives={},
            stages_s={},
            created_at=now(),
        )
        for each in new
    }
    statement = (
        upsert(connection, candidates)
        .on_conflict_do_nothing(index_elements=["search", "digest"])
        .returning(candidates.c.id)
    )
    rows = [{**vars(candidate), "children": 0} for candidate in found.values()]
    return {id: found[id] for id in await connection.scalars(statement, rows)}


async def _count_children(connection: AsyncConnection, new: Sequence[NewCandidate]) -> None:
    # One at a time, ordered by id, so that two writers with the same parents never deadlock.
    children = Counter(parent for each in new for parent in _parents(each))
    if children:
        statement = update(candidates).where(candidates.c.id == bindparam("of"))
        statement = statement.values(children=candidates.c.children + bindparam("more"))
        await connection.execute(statement, [{"of": id, "more": children[id]} for id in sorted(children)])


async def _count_proposals(
    connection: AsyncConnection, new: Sequence[NewCandidate], screened: Sequence[str], stored: int
) -> None:
    """Count proposals of one search, those stored, and those dropped in their favour by emitter."""
    if not new:
        return
    search, following = new[0].search, max(each.ordinal for each in new) + 1
    proposals = case((counters.c.proposals < following, following), else_=counters.c.proposals)
    row = update(counters).where(counters.c.search == search)
    await connection.execute(row.values(proposals=proposals, candidates=counters.c.candidates + stored))
    happened = Counter(CountedEvent(search, "", each.emitter, PROPOSED) for each in new)
    await count_events(connection, happened + Counter(CountedEvent(search, "", name, SCREENED) for name in screened))
