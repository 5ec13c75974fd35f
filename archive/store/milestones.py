"""Milestones: progress of a search, stored ever more rarely, so that a chart of any length needs few points."""

from sqlalchemy import func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import TimestampColumn, now
from archive.store.engine import upsert
from archive.store.llm_budgets import SEARCH
from archive.tables import counters, elites, llm_budgets, milestones, searches

DENSE = 256
"""Number of evaluations up to which each is a milestone; beyond, 128 per doubling. A million evaluations have 1800."""


def is_milestone(evaluations: int) -> bool:
    """Return True if the progress chart has a point at this number of evaluations."""
    spacing = 1
    while evaluations >= DENSE * spacing:
        spacing *= 2
    return evaluations % spacing == 0


def last_milestone(before: int, evaluations: int) -> int | None:
    """Return the last milestone after `before` evaluations, up to `evaluations`."""
    return next((number for number in range(evaluations, before, -1) if is_milestone(number)), None)


async def mark_milestone(connection: AsyncConnection, search: str, before: int, evaluations: int) -> None:
    """Store the progress of a search on each device that has an elite, in the caller's transaction.

    Verdicts that are written together make at most one point, with the progress after all of them.

    Args:
        connection: Connection of the transaction.
        search: Id of the search.
        before: Number of its evaluations before these verdicts.
        evaluations: Number of its evaluations now.
    """
    milestone = last_milestone(before, evaluations)
    if milestone is not None:
        await _mark(connection, search, milestone)


async def renew_milestone(connection: AsyncConnection, search: str) -> None:
    """Store the progress at a search's last evaluation again: a confirm may come long after a verdict."""
    statement = select(counters.c.evaluated).where(counters.c.search == search)
    evaluations = (await connection.execute(statement)).scalar_one()
    if evaluations and is_milestone(evaluations):
        await _mark(connection, search, evaluations)


async def _mark(connection: AsyncConnection, search: str, milestone: int) -> None:
    spent = (
        select(llm_budgets.c.usd)
        .where(llm_budgets.c.search == search, llm_budgets.c.backend == SEARCH)
        .scalar_subquery()
    )
    standing = (
        select(
            elites.c.search,
            elites.c.device,
            literal(milestone),
            func.count(),
            func.sum(elites.c.objective),
            func.max(elites.c.objective),
            spent,
            literal(now(), TimestampColumn),
        )
        .join(searches, (searches.c.id == elites.c.search) & (searches.c.axes_version == elites.c.axes_version))
        .where(elites.c.search == search)
        .group_by(elites.c.search, elites.c.device)
    )
    columns = ["search", "device", "evaluations", "elites", "qd_score", "best", "usd", "reached_at"]
    statement = upsert(connection, milestones).from_select(columns, standing)
    renewed = {name: statement.excluded[name] for name in ("elites", "qd_score", "best")}
    keys = ["search", "device", "evaluations"]
    await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=renewed))
