"""Views: frequent reads of pages, with only the columns that they show. Nothing here writes."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Integer, ScalarSelect, Select, and_, bindparam, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.progress import PROPOSED
from archive.records import (
    AxisStride,
    CandidateState,
    Documents,
    EliteSummary,
    MapCell,
    Milestone,
    Relative,
    SearchResult,
    SearchVersion,
)
from archive.store.elites import select_held
from archive.store.engine import Database, select_record
from archive.tables import (
    UNFINISHED,
    candidate_parents,
    candidates,
    counters,
    elites,
    milestones,
    placements,
    reports,
    searches,
    tallies,
)

MOST_RELATIVES = 200
"""Maximum number of candidates in one lineage; a larger graph is illegible."""


class ViewStore:
    """Narrow reads of searches, candidates and elites."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def top_elites(self, search: str, device: str, axes_version: int, *, limit: int) -> list[EliteSummary]:
        """Return the elites of filled cells, the best first."""
        statement = (
            select_held(EliteSummary)
            .where(*_grid(search, device, axes_version))
            .order_by(elites.c.objective.desc())
            .limit(limit)
        )
        async with self._database.read() as connection:
            return [EliteSummary(*row) for row in await connection.execute(statement)]

    async def places(
        self,
        grid: tuple[str, str, int],
        x: AxisStride,
        y: AxisStride,
        slices: Sequence[tuple[AxisStride, int]] = (),
    ) -> list[MapCell]:
        """Project a grid to a map over two axes: for each place, the number of filled cells and their best elite.

        It reads an index and one row per place, not one per cell. Among equally good elites the one of the first cell
        counts.

        Args:
            grid: Search, device and version of the axes.
            x: The axis from left to right.
            y: The axis from bottom to top.
            slices: Axes that are fixed at one bin each.
        """
        across, up = _bin(x), _bin(y)
        here = (*_grid(*grid), *(_bin(span) == chosen for span, chosen in slices))
        tops = select(across, up, func.max(elites.c.objective), func.count()).where(*here).group_by(across, up)
        async with self._database.read() as connection:
            found = {(at_x, at_y): (top, held) for at_x, at_y, top, held in await connection.execute(tops)}
            if not found:
                return []
            cells = await _first_cells(connection, (across, up), here, {top for top, _ in found.values()})
            first = {place: cells[*place, top] for place, (top, _) in found.items()}
            best = await _elites_at(connection, grid, first.values())
        return [MapCell(*place, held, best[first[place]]) for place, (_, held) in found.items()]

    async def shared(self, left: tuple[str, str, int], right: tuple[str, str, int]) -> int:
        """Count the cells filled in both of two grids, each a search, a device and a version of its axes."""
        other = elites.alias("other")
        theirs = (other.c.search == right[0], other.c.device == right[1], other.c.axes_version == right[2])
        both = elites.join(other, other.c.cell == elites.c.cell)
        statement = select(func.count()).select_from(both).where(*_grid(*left), *theirs)
        async with self._database.read() as connection:
            return (await connection.execute(statement)).scalar_one()

    async def milestones(self, search: str, device: str, *, spacing: int = 1) -> list[Milestone]:
        """Return the milestones of a search, oldest first. Their number grows with the logarithm of its evaluations.

        Args:
            search: Id of the search.
            device: Device of the grid.
            spacing: Only those at a multiple of this number of evaluations.
        """
        statement = (
            select_record(milestones, Milestone)
            .where(milestones.c.search == search, milestones.c.device == device)
            .order_by(milestones.c.evaluations)
        )
        if spacing > 1:
            statement = statement.where(milestones.c.evaluations % spacing == 0)
        async with self._database.read() as connection:
            return [Milestone(*row) for row in await connection.execute(statement)]

    async def results(self, ids: Collection[str]) -> dict[str, SearchResult]:
        """Return the results of searches, by id; unknown searches are left out.

        A search that was admitted against mutation testing has no best.
        """
        evaluated = select(counters.c.search, counters.c.evaluated).where(counters.c.search.in_(ids))
        present = and_(searches.c.id == elites.c.search, searches.c.axes_version == elites.c.axes_version)
        best = (
            select(elites.c.search, elites.c.device, func.max(elites.c.objective))
            .join(searches, present)
            .where(elites.c.search.in_(ids), searches.c.admitted == "")
            .group_by(elites.c.search, elites.c.device)
        )
        async with self._database.read() as connection:
            found = {search: SearchResult(count, {}) for search, count in await connection.execute(evaluated)}
            for search, device, objective in await connection.execute(best):
                found[search] = SearchResult(found[search].evaluated, {**found[search].best, device: objective})
        return found

    async def versions(self, ids: Collection[str]) -> dict[str, SearchVersion]:
        """Return a version per search that changes with everything shown of it; unknown searches are left out.

        Args:
            ids: Ids of the searches.
        """
        async with self._database.read() as connection:
            rows = await connection.execute(_VERSIONS, {"ids": list(ids)})
            return {id: SearchVersion(id, bool(asks), at, *map(int, counts)) for id, asks, at, *counts in rows}

    async def lineage(self, candidates: Collection[str], generations: int) -> list[Relative]:
        """Return candidates and their ancestors, nearest first; each once, at its nearest generation.

        Args:
            candidates: Ids of the candidates; those that do not exist are left out.
            generations: Maximum number of generations back.
        """
        found: dict[str, Relative] = {}
        wanted = candidates
        async with self._database.read() as connection:
            for generation in range(generations + 1):
                kin = [
                    Relative(**row._asdict(), generation=generation)
                    for row in await connection.execute(_relatives(wanted))
                ]
                found |= {each.id: each for each in kin}
                wanted = {parent for each in kin for parent in each.parents} - found.keys()
                if not wanted or len(found) + len(wanted) > MOST_RELATIVES:
                    break
        return list(found.values())

    async def children(self, candidate: str, limit: int) -> list[Relative]:
        """Return the first direct children of a candidate; their generation is -1."""
        ids = (
            select(candidate_parents.c.child)
            .where(candidate_parents.c.parent == candidate)
            .order_by(candidate_parents.c.child)
        )
        async with self._database.read() as connection:
            found = (await connection.scalars(ids.limit(limit))).all()
            if not found:
                return []
            return [Relative(**row._asdict(), generation=-1) for row in await connection.execute(_relatives(found))]

    async def documents(self, jobs: Collection[str]) -> Documents:
        """Return the reports of jobs, by job; missing ones are left out."""
        statement = select(reports.c.job, reports.c.document).where(reports.c.job.in_(jobs))
        async with self._database.read() as connection:
            return {job: document for job, document in await connection.execute(statement)}


def _tallied() -> ScalarSelect[int]:
    """Sum all event counts of the outer query's search."""
    of = tallies.c.search == searches.c.id
    return select(func.coalesce(func.sum(tallies.c["count"]), 0)).where(of).correlate(searches).scalar_subquery()


def _landed() -> ScalarSelect[int]:
    """Sum the last offers of each emitter of the outer query's search, from an index."""
    proposed = and_(tallies.c.search == searches.c.id, tallies.c.event == PROPOSED)
    theirs = and_(placements.c.search == tallies.c.search, placements.c.emitter == tallies.c.emitter)
    last = select(func.max(placements.c.seq)).where(theirs).correlate(tallies).scalar_subquery()
    return select(func.coalesce(func.sum(last), 0)).where(proposed).correlate(searches).scalar_subquery()


def _traced() -> ScalarSelect[int]:
    """Count the candidates of the outer query's search that are traced and wait for a verdict."""
    waiting = (candidates.c.search == searches.c.id, UNFINISHED, candidates.c.state == CandidateState.TRACED)
    return select(func.count()).select_from(candidates).where(*waiting).correlate(searches).scalar_subquery()


# Built once: it runs all the time, and building it takes longer than running it.
_VERSIONS = select(
    searches.c.id, searches.c.llm.is_not(None), searches.c.updated_at, _tallied(), _landed(), _traced()
).where(searches.c.id.in_(bindparam("ids", expanding=True)))


def _relatives(ids: Collection[str]) -> Select[Any]:
    columns = ("id", "ordinal", "emitter", "parents", "note", "outcome", "objectives")
    return select(*(candidates.c[name] for name in columns)).where(candidates.c.id.in_(ids))


def _grid(search: str, device: str, axes_version: int) -> tuple[ColumnElement[bool], ...]:
    return (elites.c.search == search, elites.c.device == device, elites.c.axes_version == axes_version)


def _bin(span: AxisStride) -> ColumnElement[int]:
    # Not as parameters: PostgreSQL would not see that the same expression is selected and grouped by.
    return literal_column(f"cell / {span.stride:d} % {span.bins:d}", Integer)


async def _first_cells(
    connection: AsyncConnection,
    place: tuple[ColumnElement[int], ColumnElement[int]],
    here: Sequence[ColumnElement[bool]],
    objectives: Collection[float],
) -> dict[tuple[int, int, float], int]:
    """Return the first cell whose elite has a given objective, by place and objective."""
    statement = (
        select(*place, elites.c.objective, func.min(elites.c.cell))
        .where(*here, elites.c.objective.in_(objectives))
        .group_by(*place, elites.c.objective)
    )
    return {(x, y, objective): cell for x, y, objective, cell in await connection.execute(statement)}


async def _elites_at(
    connection: AsyncConnection, grid: tuple[str, str, int], cells: Collection[int]
) -> dict[int, EliteSummary]:
    """Return the elites by cell."""
    statement = select_held(EliteSummary).where(*_grid(*grid), elites.c.cell.in_(cells))
    return {row.cell: EliteSummary(*row) for row in await connection.execute(statement)}
