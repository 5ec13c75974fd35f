"""Verdicts on candidates, and their counters, within one transaction."""

from collections import Counter
from collections.abc import Iterable
from math import isfinite

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.progress import CORRECT
from archive.records import CandidateState, CandidateVerdict
from archive.store.counters import CountedEvent, count_events
from archive.store.milestones import mark_milestone
from archive.tables import UNFINISHED, candidates, counters


def require_finite(verdict: CandidateVerdict) -> None:
    """Refuse figures that no archive should hold.

    Raises:
        ValueError: If an objective is not finite.
    """
    for figure in (verdict.objective, *verdict.objectives.values()):
        if figure is not None and not isfinite(figure):
            raise ValueError(f"an objective must be finite, not {figure}")


async def add_verdicts(connection: AsyncConnection, verdicts: Iterable[CandidateVerdict]) -> set[str]:
    """Set the verdicts of candidates without one. Returns these candidates."""
    given = {verdict.candidate: verdict for verdict in verdicts}
    if not given:
        return set()
    # Locked in the order of ids, so that two transactions with the same candidates never deadlock.
    waiting = (
        select(candidates.c.id, candidates.c.search, candidates.c.emitter)
        .where(candidates.c.id.in_(given), UNFINISHED)
        .order_by(candidates.c.id)
        .with_for_update()
    )
    first = list(await connection.execute(waiting))
    if not first:
        return set()
    statement = (
        update(candidates)
        .where(candidates.c.id == bindparam("of"))
        .values(state=CandidateState.JUDGED, **{name: bindparam(f"new_{name}") for name in _SAID})
    )
    await connection.execute(statement, [_row(given[row.id]) for row in first])
    evaluated = Counter(row.search for row in first)
    for search in sorted(evaluated):
        await _count(connection, search, evaluated[search])
    await count_events(
        connection, Counter(CountedEvent(row.search, "", row.emitter, given[row.id].outcome) for row in first)
    )
    return {row.id for row in first}


async def revise_verdicts(connection: AsyncConnection, verdicts: Iterable[CandidateVerdict]) -> None:
    """Replace verdicts of correct candidates, whose second trace or confirm has found more; others stay."""
    given = {verdict.candidate: verdict for verdict in verdicts}
    if not given:
        return
    correct = (
        select(candidates.c.id, candidates.c.search, candidates.c.emitter)
        .where(candidates.c.id.in_(given), candidates.c.outcome == CORRECT)
        .order_by(candidates.c.id)
        .with_for_update()
    )
    found = list(await connection.execute(correct))
    if not found:
        return
    statement = update(candidates).where(candidates.c.id == bindparam("of"))
    statement = statement.values({name: bindparam(f"new_{name}") for name in _SAID})
    await connection.execute(statement, [_row(given[row.id]) for row in found])
    changes: Counter[CountedEvent] = Counter()
    for row in found:
        changes[CountedEvent(row.search, "", row.emitter, CORRECT)] -= 1
        changes[CountedEvent(row.search, "", row.emitter, given[row.id].outcome)] += 1
    await count_events(connection, {event: count for event, count in changes.items() if count})


_SAID = ("outcome", "reason", "line", "objective", "objectives")


def _row(verdict: CandidateVerdict) -> dict[str, object]:
    return {"of": verdict.candidate, **{f"new_{name}": getattr(verdict, name) for name in _SAID}}


async def _count(connection: AsyncConnection, search: str, evaluated: int) -> None:
    counted = update(counters).where(counters.c.search == search).values(evaluated=counters.c.evaluated + evaluated)
    evaluations = (await connection.execute(counted.returning(counters.c.evaluated))).scalar_one()
    await mark_milestone(connection, search, evaluations - evaluated, evaluations)
