"""Verdicts on candidates, and their counters, within one transaction."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.progress import CORRECT
from archive.records import CandidateState, CandidateVerdict
from archive.store.counters import CountedEvent, count_events
from archive.store.milestones import mark_milestone
from archive.store.reports import INCONCLUSIVE
from archive.tables import UNFINISHED, candidates, counters, variants


class _Judged(NamedTuple):
    """A candidate that gets its first verdict."""

    id: str
    search: str
    ordinal: int
    emitter: str


def require_finite(verdict: CandidateVerdict) -> None:
    """Refuse figures that no archive should hold.

    Raises:
        ValueError: If an objective is not finite.
    """
    for figure in (verdict.objective, *verdict.objectives.values()):
        if figure is not None and not isfinite(figure):
            raise ValueError(f"an objective must be finite, not {figure}")


async def add_verdicts(connection: AsyncConnection, verdicts: Iterable[CandidateVerdict]) -> set[str]:
    """Set the verdicts of candidates without one. Returns these candidates.

    A candidate whose plans have a verdict in its search already is no evaluation; it is counted apart.
    """
    given = {verdict.candidate: verdict for verdict in verdicts}
    if not given:
        return set()
    # Locked in the order of ids, so that two transactions with the same candidates never deadlock.
    waiting = (
        select(candidates.c.id, candidates.c.search, candidates.c.ordinal, candidates.c.emitter)
        .where(candidates.c.id.in_(given), UNFINISHED)
        .order_by(candidates.c.id)
        .with_for_update()
    )
    first = [_Judged(*row) for row in await connection.execute(waiting)]
    if not first:
        return set()
    equal = await _equal_plans(connection, first, given)
    statement = (
        update(candidates)
        .where(candidates.c.id == bindparam("of"))
        .values(
            state=CandidateState.JUDGED,
            equal_plan=bindparam("new_equal_plan"),
            **{name: bindparam(f"new_{name}") for name in _SAID},
        )
    )
    await connection.execute(statement, [_row(given[row.id]) | {"new_equal_plan": row.id in equal} for row in first])
    judged, known = Counter(row.search for row in first), Counter(row.search for row in first if row.id in equal)
    for search in sorted(judged):
        await _count(connection, search, judged[search] - known[search], known[search])
    distinct = (row for row in first if row.id not in equal)
    await count_events(
        connection, Counter(CountedEvent(row.search, "", row.emitter, given[row.id].outcome) for row in distinct)
    )
    return {row.id for row in first}


async def _equal_plans(
    connection: AsyncConnection, judged: Sequence[_Judged], given: Mapping[str, CandidateVerdict]
) -> set[str]:
    """Return those of the candidates to be judged whose plans all have a verdict in their search already.

    Of several with equal plans the first proposal is the evaluation. A lost worker's verdict does not count: the plans
    are evaluated anew.
    """
    plans: defaultdict[str, set[str]] = defaultdict(set)
    traced = select(variants.c.candidate, variants.c.bundle)
    traced = traced.where(variants.c.candidate.in_([row.id for row in judged]), variants.c.bundle.is_not(None))
    for candidate, bundle in await connection.execute(traced):
        plans[candidate].add(bundle)
    known: defaultdict[str, set[str]] = defaultdict(set)
    earlier = select(candidates.c.search, variants.c.bundle).distinct()
    earlier = earlier.join(variants, variants.c.candidate == candidates.c.id).where(
        variants.c.bundle.in_(set().union(*plans.values())),
        candidates.c.search.in_({row.search for row in judged}),
        candidates.c.state == CandidateState.JUDGED,
        candidates.c.outcome.not_in(INCONCLUSIVE),
    )
    for search, bundle in await connection.execute(earlier) if plans else ():
        known[search].add(bundle)
    equal: set[str] = set()
    for row in sorted(judged, key=lambda row: row.ordinal):
        if plans[row.id] and plans[row.id] <= known[row.search]:
            equal.add(row.id)
        elif given[row.id].outcome not in INCONCLUSIVE:
            known[row.search] |= plans[row.id]
    return equal


async def revise_verdicts(connection: AsyncConnection, verdicts: Iterable[CandidateVerdict]) -> None:
    """Replace verdicts of correct candidates, whose second trace or confirm has found more; others stay."""
    given = {verdict.candidate: verdict for verdict in verdicts}
    if not given:
        return
    correct = (
        select(candidates.c.id, candidates.c.search, candidates.c.emitter, candidates.c.equal_plan)
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
        if row.equal_plan:
            continue
        changes[CountedEvent(row.search, "", row.emitter, CORRECT)] -= 1
        changes[CountedEvent(row.search, "", row.emitter, given[row.id].outcome)] += 1
    await count_events(connection, {event: count for event, count in changes.items() if count})


_SAID = ("outcome", "reason", "line", "objective", "objectives")


def _row(verdict: CandidateVerdict) -> dict[str, object]:
    return {"of": verdict.candidate, **{f"new_{name}": getattr(verdict, name) for name in _SAID}}


async def _count(connection: AsyncConnection, search: str, evaluated: int, equal_plans: int) -> None:
    counted = update(counters).where(counters.c.search == search)
    counted = counted.values(
        evaluated=counters.c.evaluated + evaluated,
        equal_plans=counters.c.equal_plans + equal_plans,
        candidates=counters.c.candidates - equal_plans,
    )
    evaluations = (await connection.execute(counted.returning(counters.c.evaluated))).scalar_one()
    await mark_milestone(connection, search, evaluations - evaluated, evaluations)
