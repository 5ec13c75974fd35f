"""Elites: the holders of cells, the history of offers, and the progress of a search.

`offer` is the central operation of the archive. It takes no lock and does not read before it writes: the database
itself decides, in one conditional statement, if a challenger takes a cell.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import Any

from sqlalchemy import ColumnElement, Delete, ScalarSelect, Select, Update, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.progress import PROMOTED, EventCount, GridTotals, summarise
from archive.records import EMPTY_CELL, EliteRecord, Offer, Placement, PlacementRecord, ProgressRecord, SelectableElite
from archive.store.counters import count_event
from archive.store.engine import Database, Upsert, select_record, upsert
from archive.store.milestones import renew_milestone
from archive.tables import candidates, elites, placements, provisional_holders, reports, searches, tallies

CELL = ("search", "device", "axes_version", "cell")
"""Key of an elite."""
CHALLENGER = ("candidate", "variant", "bundle", "job", "emitter", "objective", "low", "mid", "high")
"""Columns that a placement copies from an offer; an elite also has coordinates."""


class EliteStore:
    """The grids of all searches, one per device."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def offer(self, offer: Offer) -> Placement:
        """Offer a challenger to its cell. Applied once per job and cell: a repetition gets the first result.

        Returns:
            NEW in an empty cell, IMPROVED if it took over. Without an incumbent it must be strictly better, else it is
            REJECTED. With one it takes over from exactly that bundle; if the cell's holder is another, it is STALE.
            With `EMPTY_CELL` it takes the cell if it is empty, and is STALE otherwise. The elite
            of a cell is no longer its provisional holder, nor is one whose lower bound it exceeds.

        Raises:
            ValueError: If the objective or one of its bounds is not finite.
            RecordConflict: If the search or the candidate is unknown.
        """
        require_figures(offer)
        async with self._database.write() as connection:
            return await decide(connection, offer)

    async def withdraw(self, search: str, device: str, bundle: str, job: str) -> list[int]:
        """Empty the cells that a bundle holds, under any version of the axes. The history keeps the former holder.

        Cells that it holds provisionally are given back.

        A repetition changes nothing.

        Args:
            search: Id of the search.
            device: Device of the grid.
            bundle: Identity of the bundle that turned out to be wrong.
            job: Job of the report that says so.

        Returns:
            The cells that it has lost.
        """
        rows: list[dict[str, Any]] = []
        async with self._database.write() as connection:
            for table in (elites, provisional_holders):
                here = (table.c.search == search, table.c.device == device, table.c.bundle == bundle)
                statement = delete(table).where(*here).returning(*(table.c[name] for name in (*CELL, *CHALLENGER)))
                rows += [row._asdict() for row in await connection.execute(statement)]
            for row in rows:
                entry = {**row, "job": job, "placement": Placement.WITHDRAWN, "offered_at": now()}
                await connection.execute(upsert(connection, placements).values(**entry).on_conflict_do_nothing())
        return sorted({row["cell"] for row in rows})

    async def get(self, search: str, device: str, axes_version: int, cell: int) -> EliteRecord:
        """Return the elite of a cell.

        Raises:
            RecordNotFound: If the cell is empty.
        """
        statement = select_held(EliteRecord).where(*_grid(search, device, axes_version), elites.c.cell == cell)
        return await self._database.one(EliteRecord, statement, f"cell {cell} of search {search} on {device} is empty")

    async def best(self, search: str, device: str) -> EliteRecord | None:
        """Return the elite with the largest objective under the search's present axes; None if no cell is filled."""
        statement = (
            select_held(EliteRecord)
            .where(*_grid(search, device, present_axes(search)))
            .order_by(elites.c.objective.desc(), elites.c.cell)
            .limit(1)
        )
        return await self._database.first(EliteRecord, statement)

    async def any_on(self, device: str) -> bool:
        """Return True if any search has an elite on a device."""
        statement = select(elites.c.cell).where(elites.c.device == device).limit(1)
        async with self._database.read() as connection:
            return await connection.scalar(statement) is not None

    async def visits(self, search: str, device: str, axes_version: int) -> dict[int, int]:
        """Return how often the candidate of each cell's holder was a parent, by cell; curious selection needs it."""
        return {holder.cell: holder.visits for holder in await self.holders(search, device, axes_version)}

    async def holders(self, search: str, device: str, axes_version: int) -> list[SelectableElite]:
        """Return the holders of all cells, by cell: the provisional holder where there is one, else the elite.

        Only the fields that the choice of a parent needs, at a twentieth of the cost of `list`.
        """
        found: dict[int, SelectableElite] = {}
        async with self._database.read() as connection:
            for table in (elites, provisional_holders):
                columns = (table.c.cell, table.c.candidate, table.c.variant, table.c.bundle, table.c.objective)
                here = (table.c.search == search, table.c.device == device, table.c.axes_version == axes_version)
                statement = select(*columns, candidates.c.children).where(*here)
                statement = statement.join(candidates, candidates.c.id == table.c.candidate)
                found |= {row.cell: SelectableElite(*row) for row in await connection.execute(statement)}
        return [found[cell] for cell in sorted(found)]

    async def history(
        self, search: str, device: str, *, cell: int | None = None, limit: int = 100, before: int | None = None
    ) -> list[PlacementRecord]:
        """Return the offers to the present grid, newest first.

        Args:
            search: Id of the search.
            device: Device of the grid.
            cell: Only those for this cell.
            limit: Maximum number of offers.
            before: Only those earlier than this `seq`.
        """
        statement = select_record(placements, PlacementRecord).order_by(placements.c.seq.desc()).limit(limit)
        statement = statement.where(placements.c.search == search, placements.c.device == device)
        statement = statement.where(placements.c.axes_version == present_axes(search))
        if cell is not None:
            statement = statement.where(placements.c.cell == cell)
        if before is not None:
            statement = statement.where(placements.c.seq < before)
        return await self._database.all(PlacementRecord, statement)

    async def progress(self, search: str, device: str, cells: int) -> ProgressRecord:
        """Return the progress on one device, in a grid of that many cells, under the present axes."""
        filled = select(func.count(), func.coalesce(func.sum(elites.c.objective), 0.0), func.max(elites.c.objective))
        filled = filled.where(*_grid(search, device, present_axes(search)))
        provisional = _waiting(search, device, present_axes(search))
        counts = select(tallies.c.emitter, tallies.c.event, tallies.c["count"])
        counts = counts.where(tallies.c.search == search, tallies.c.device.in_(("", device)))
        async with self._database.read() as connection:
            waiting = (await connection.execute(provisional)).one().cells
            here = replace(GridTotals(*(await connection.execute(filled)).one()), provisional=waiting)
            events = [EventCount(*row) for row in await connection.execute(counts)]
        return summarise(cells, here, events)

    async def version(self, search: str, device: str, axes_version: int) -> str:
        """Return a version that changes with every holder: the filled cells, the promotions, and their last time.

        Withdrawals lower the number of promotions, so that this number alone may recur.
        """
        placed = func.max(elites.c.placed_at)
        statement = select(func.count(), func.coalesce(func.sum(elites.c.revision), 0), placed)
        statement = statement.where(*_grid(search, device, axes_version))
        provisional = _waiting(search, device, axes_version)
        async with self._database.read() as connection:
            cells, promotions, latest = (await connection.execute(statement)).one()
            waiting = (await connection.execute(provisional)).one()
        times = [f"{time.timestamp()}" if time else "0" for time in (latest, waiting.latest)]
        return "-".join([str(cells), str(promotions), str(waiting.cells), *times])

    async def top(self, search: str, device: str, axes_version: int, limit: int) -> Sequence[EliteRecord]:
        """Return the elites with the largest objectives, the best first."""
        statement = select_held(EliteRecord).where(*_grid(search, device, axes_version))
        statement = statement.order_by(elites.c.objective.desc()).limit(limit)
        return await self._database.all(EliteRecord, statement)

    # Last, because from here on `list` means this method.
    async def list(self, search: str, device: str, axes_version: int) -> list[EliteRecord]:
        """Return the elites of all filled cells, by cell."""
        statement = select_held(EliteRecord).where(*_grid(search, device, axes_version)).order_by(elites.c.cell)
        return await self._database.all(EliteRecord, statement)


def _grid(search: str, device: str, axes_version: int | ScalarSelect[int]) -> tuple[ColumnElement[bool], ...]:
    return (elites.c.search == search, elites.c.device == device, elites.c.axes_version == axes_version)


def _waiting(search: str, device: str, axes_version: int | ScalarSelect[int]) -> Select[int, Any]:
    """Select the number of a grid's provisional holders, and when the last one took its cell."""
    held = provisional_holders.c
    statement = select(func.count().label("cells"), func.max(held.placed_at).label("latest"))
    return statement.where(held.search == search, held.device == device, held.axes_version == axes_version)


def select_held(record: type) -> Select[Any]:
    """Select the columns that a record of elites has fields for; protocol and compiler are those of its report."""
    mine = reports.c.job == elites.c.job
    judged = {
        "protocol_version": select(reports.c.protocol_version).where(mine).scalar_subquery(),
        "compiler": func.coalesce(select(reports.c.compiler).where(mine).scalar_subquery(), ""),
    }
    names = [field.name for field in fields(record)]
    return select(*(judged[name].label(name) if name in judged else elites.c[name] for name in names))


def present_axes(search: str) -> ScalarSelect[int]:
    """Select the version of the axes that a search has now."""
    return select(searches.c.axes_version).where(searches.c.id == search).scalar_subquery()


def require_figures(offer: Offer) -> None:
    """Refuse an offer whose objective or bounds are not finite.

    Raises:
        ValueError: If one is not.
    """
    if not all(isfinite(figure) for figure in (offer.objective, offer.low, offer.mid, offer.high)):
        raise ValueError(f"objective and bounds of job {offer.job} must be finite")


async def decide(connection: AsyncConnection, offer: Offer) -> Placement:
    """Offer a challenger to its cell, as `EliteStore.offer` does, within a transaction."""
    seq = await connection.scalar(enter(connection, offer).returning(placements.c.seq))
    if seq is None:
        return await answer(connection, offer)
    statement = _swap(offer) if offer.incumbent else claim(connection, offer)
    revision = await connection.scalar(statement.returning(elites.c.revision))
    placement = placement_of(offer, revision)
    if placement is not Placement.REJECTED:
        entry = update(placements).where(placements.c.seq == seq)
        await connection.execute(entry.values(placement=placement, revision=revision))
    if revision is not None:
        await connection.execute(_outdone(offer))
        if offer.incumbent is not None:
            await renew_milestone(connection, offer.search)
        await count_event(connection, offer.search, offer.emitter, PROMOTED, offer.device)
    return placement


def enter(connection: AsyncConnection, offer: Offer) -> Upsert:
    """Enter the offer into the history, as rejected at first; no row comes back if its job is there already."""
    values = {name: getattr(offer, name) for name in (*CELL, *CHALLENGER)}
    statement = upsert(connection, placements).values(**values, placement=Placement.REJECTED, offered_at=now())
    return statement.on_conflict_do_nothing(index_elements=["job", "axes_version", "cell"])


def claim(connection: AsyncConnection, offer: Offer) -> Upsert:
    """Take the cell if it is empty, or, without a confirm, if its elite's objective is smaller."""
    holder = _holder(offer)
    statement = upsert(connection, elites).values(**{name: getattr(offer, name) for name in CELL}, **holder, revision=1)
    if offer.incumbent == EMPTY_CELL:
        return statement.on_conflict_do_nothing(index_elements=CELL)
    return statement.on_conflict_do_update(
        index_elements=CELL,
        set_={**holder, "revision": elites.c.revision + 1},
        where=elites.c.objective < offer.objective,
    )


def _outdone(offer: Offer) -> Delete:
    """Remove the provisional holder of a cell if it is its elite now, or no better than its elite."""
    held = provisional_holders.c
    here = (held[name] == getattr(offer, name) for name in CELL)
    return delete(provisional_holders).where(*here, or_(held.bundle == offer.bundle, held.low <= offer.mid))


def _swap(offer: Offer) -> Update:
    """Take the cell from exactly the bundle that the challenger was confirmed against."""
    here = (elites.c[name] == getattr(offer, name) for name in CELL)
    statement = update(elites).where(*here, elites.c.bundle == offer.incumbent)
    return statement.values(**_holder(offer), revision=elites.c.revision + 1)


def _holder(offer: Offer) -> dict[str, Any]:
    return {
        **{name: getattr(offer, name) for name in CHALLENGER},
        "coordinates": offer.coordinates,
        "placed_at": now(),
    }


def placement_of(offer: Offer, revision: int | None) -> Placement:
    """Return the result of an offer from the revision that its statement returned, or none."""
    if revision is None:
        return Placement.REJECTED if offer.incumbent is None else Placement.STALE
    return Placement.NEW if revision == 1 else Placement.IMPROVED


async def answer(connection: AsyncConnection, offer: Offer) -> Placement:
    """Return the result of an earlier offer of the same job."""
    statement = select(placements.c.placement).where(
        placements.c.job == offer.job,
        placements.c.axes_version == offer.axes_version,
        placements.c.cell == offer.cell,
    )
    return Placement((await connection.execute(statement)).scalar_one())
