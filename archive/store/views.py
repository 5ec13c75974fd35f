"""Views: what pages read often, in as few columns as they show. Nothing here writes."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, select

from archive.records import Documents, Kin, Mark, Milestone, Sighting
from archive.store.engine import Database, select_record
from archive.tables import candidates, elites, milestones, reports

MOST_KIN = 200
"""Candidates of one lineage; a graph of more cannot be read."""


class Views:
    """Lean readings of searches, candidates and elites."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def marks(self, search: str, device: str, axes_version: int) -> list[Mark]:
        """Holders of all filled cells, the best first."""
        statement = (
            select_record(elites, Mark)
            .where(elites.c.search == search, elites.c.device == device, elites.c.axes_version == axes_version)
            .order_by(elites.c.objective.desc())
        )
        async with self._database.read() as connection:
            return [Mark(*row) for row in await connection.execute(statement)]

    async def milestones(self, search: str, device: str, *, spacing: int = 1) -> list[Milestone]:
        """How a search got where it is, oldest first. Their number grows with the logarithm of its evaluations.

        Args:
            search: Which search.
            device: Which archive within it.
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

    async def sightings(
        self, search: str, *, limit: int = 50, before: int | None = None, outcome: str | None = None
    ) -> list[Sighting]:
        """A search's candidates without their sources, newest first.

        Args:
            search: Which search.
            limit: Most to return.
            before: Only those of a smaller ordinal.
            outcome: Only those judged so.
        """
        statement = (
            select_record(candidates, Sighting)
            .where(candidates.c.search == search)
            .order_by(candidates.c.ordinal.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(candidates.c.ordinal < before)
        if outcome is not None:
            statement = statement.where(candidates.c.outcome == outcome)
        async with self._database.read() as connection:
            return [Sighting(*row) for row in await connection.execute(statement)]

    async def lineage(self, candidate: str, generations: int) -> list[Kin]:
        """A candidate and its ancestors, nearest first; each once, at the nearest generation it stands in.

        Args:
            candidate: Whose lineage; nothing comes back for one that does not exist.
            generations: How far back.
        """
        found: dict[str, Kin] = {}
        wanted: Collection[str] = (candidate,)
        async with self._database.read() as connection:
            for generation in range(generations + 1):
                kin = [Kin(**row._asdict(), generation=generation) for row in await connection.execute(_kin(wanted))]
                found |= {each.id: each for each in kin}
                wanted = {parent for each in kin for parent in each.parents} - found.keys()
                if not wanted or len(found) + len(wanted) > MOST_KIN:
                    break
        return list(found.values())

    async def documents(self, jobs: Collection[str]) -> Documents:
        """The reports of some jobs, by job; those that are not there are left out."""
        statement = select(reports.c.job, reports.c.document).where(reports.c.job.in_(jobs))
        async with self._database.read() as connection:
            return {job: document for job, document in await connection.execute(statement)}


def _kin(ids: Collection[str]) -> Select[Any]:
    columns = ("id", "ordinal", "emitter", "parents", "note", "outcome", "objective")
    return select(*(candidates.c[name] for name in columns)).where(candidates.c.id.in_(ids))
