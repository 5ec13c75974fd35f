"""Re-binning: a search's kernels are placed in another grid, from their stored readings.

A grid changes if its axes or the edges of a descriptor change. Every earlier offer is made again, in order, at the
coordinates that its bundle's readings have now. The old grid and its history stay under their version of the axes.
Provisional holders stay provisional: they hold their new cells if they are better than the elites there.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Exists, delete, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.descriptors import coordinates
from archive.errors import RecordConflict, RecordNotFound
from archive.grid import Grid
from archive.records import AxisRecord, Placement, SearchRecord, SearchState
from archive.store.elites import CELL, CHALLENGER
from archive.store.engine import Database, select_record
from archive.tables import bundles, counters, elites, pins, placements, provisional_holders, reports, searches

IDLE = (SearchState.PAUSED, SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)
"""States in which no offer goes to the old grid, once nothing is in flight."""
PAGE = 500
"""Number of offers in memory at once."""


@dataclass(frozen=True)
class RebinningResult:
    """Result of a re-binning.

    Attributes:
        axes_version: Version of the new grid's axes.
        offers: Number of offers made again.
        unplaced: Number of offers whose kernels have no coordinate on one of the new axes.
        cells: Number of filled cells in the new grid, by device.
    """

    axes_version: int
    offers: int
    unplaced: int
    cells: Mapping[str, int]


@dataclass
class _Device:
    """The new grid of one device while it is filled: holders by cell, as rows of their table."""

    name: str
    holders: dict[int, dict[str, Any]] = field(default_factory=dict)
    offers: int = 0
    unplaced: int = 0

    def place(self, offer: Mapping[str, Any], where: Mapping[str, Any], cell: int) -> dict[str, Any]:
        """Decide an offer: the higher objective wins, or the earlier of equal ones. Returns its history entry."""
        holder = self.holders.get(cell)
        revision = None
        if holder is None or offer["objective"] > holder["objective"]:
            revision = 1 if holder is None else holder["revision"] + 1
            kept = {name: offer[name] for name in (*CELL, *CHALLENGER)} | {"cell": cell}
            self.holders[cell] = {**kept, "coordinates": where, "revision": revision, "placed_at": offer["offered_at"]}
        self.offers += 1
        won = Placement.NEW if revision == 1 else Placement.IMPROVED
        return {**offer, "cell": cell, "placement": won if revision else Placement.REJECTED, "revision": revision}


class Rebinning:
    """Places the kernels of a search in another grid."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rebin(self, id: str, axes: Sequence[AxisRecord]) -> RebinningResult:
        """Place a search's kernels in another grid, all or nothing. Pins of old cells are removed.

        Args:
            id: Id of the search.
            axes: Axes of the new grid.

        Raises:
            RecordNotFound: If there is no such search.
            RecordConflict: If it runs, or has candidates in flight.
        """
        async with self._database.write() as connection:
            search = await _require_idle(connection, id)
            grid, version = Grid(axes), search.axes_version + 1
            first = next(place for place, shape in enumerate(search.shapes) if shape["role"] == "benchmark")
            found = [_Device(name) for name in search.devices]
            for device in found:
                refused = await _withdrawn(connection, search, device.name)
                async for page in _pages(connection, search, device.name):
                    offers = [{**row, "axes_version": version} for row in page if row["bundle"] not in refused]
                    await _take(connection, device, offers, grid, first)
            held = [row for device in found for row in device.holders.values()]
            if held:
                await connection.execute(insert(elites), held)
            for device in found:
                await _move_provisional(connection, search, device, grid, first)
            await connection.execute(delete(pins).where(pins.c.search == id, pins.c.cell.is_not(None)))
            values = {"axes": grid.axes, "axes_version": version, "updated_at": now()}
            await connection.execute(update(searches).where(searches.c.id == id).values(**values))
        return RebinningResult(
            version,
            sum(device.offers for device in found),
            sum(device.unplaced for device in found),
            {device.name: len(device.holders) for device in found},
        )


async def _require_idle(connection: AsyncConnection, id: str) -> SearchRecord:
    """Return a search. Raises unless it is idle: no offer may come meanwhile."""
    row = (await connection.execute(select_record(searches, SearchRecord).where(searches.c.id == id))).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no search {id}")
    search = SearchRecord(**row._asdict())
    if search.state not in IDLE:
        raise RecordConflict(f"search {id} is {search.state.value}: pause it, or wait until it has ended")
    count = select(counters.c.candidates - counters.c.evaluated).where(counters.c.search == id)
    if search.state is SearchState.PAUSED and (left := await connection.scalar(count)):
        raise RecordConflict(f"{left} candidates of search {id} are still in flight; wait until they are judged")
    return search


async def _withdrawn(connection: AsyncConnection, search: SearchRecord, device: str) -> Collection[str]:
    """Return the bundles that turned out to be wrong after they were offered."""
    statement = select(placements.c.bundle).where(
        placements.c.search == search.id,
        placements.c.device == device,
        placements.c.placement == Placement.WITHDRAWN,
    )
    return set((await connection.scalars(statement)).all())


async def _pages(connection: AsyncConnection, search: SearchRecord, device: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield offers with the readings of their bundles, oldest first; a repeated offer comes once.

    Offers without a place in a grid in between are included.
    """
    after, earlier = -1, placements.alias()
    again = exists().where(earlier.c.job == placements.c.job, earlier.c.axes_version < placements.c.axes_version)
    columns = [placements.c[name] for name in ("seq", *CELL, *CHALLENGER, "offered_at")]
    statement = (
        select(*columns, bundles.c.readings)
        .join(bundles, bundles.c.identity == placements.c.bundle)
        .where(placements.c.search == search.id, placements.c.device == device, ~again)
        .where(placements.c.placement != Placement.PROVISIONAL, ~_unconfirmed())
        .order_by(placements.c.seq)
        .limit(PAGE)
    )
    while page := (await connection.execute(statement.where(placements.c.seq > after))).all():
        after = page[-1].seq
        yield [row._asdict() for row in page]


def _unconfirmed() -> Exists:
    """Match offers on cards by a first measurement, which may hold a cell provisionally at most."""
    measured = (reports.c.kind == "measure", reports.c.provenance == "measured")
    return exists().where(reports.c.job == placements.c.job, *measured)


async def _move_provisional(
    connection: AsyncConnection, search: SearchRecord, device: _Device, grid: Grid, first: int
) -> None:
    """Let the provisional holders of the old grid hold cells of the new one, the best of each cell."""
    old = provisional_holders.c
    statement = (
        select(*(column for column in old), bundles.c.readings)
        .join(bundles, bundles.c.identity == old.bundle)
        .where(old.search == search.id, old.device == device.name, old.axes_version == search.axes_version)
    )
    moved: dict[int, dict[str, Any]] = {}
    rows = [row._asdict() for row in await connection.execute(statement)]
    for row in sorted(rows, key=lambda row: -row["objective"]):
        where = coordinates(row.pop("readings")[first])
        cell = grid.index(where)
        elite = device.holders.get(-1 if cell is None else cell)
        if cell is not None and cell not in moved and (elite is None or row["low"] > elite["mid"]):
            moved[cell] = {**row, "axes_version": search.axes_version + 1, "cell": cell, "coordinates": where}
    if moved:
        await connection.execute(insert(provisional_holders), list(moved.values()))


async def _take(
    connection: AsyncConnection, device: _Device, offers: Sequence[dict[str, Any]], grid: Grid, first: int
) -> None:
    """Decide a page of offers, and enter them into the history of the new grid."""
    entries = []
    for offer in offers:
        del offer["seq"]
        where = coordinates(offer.pop("readings")[first])
        cell = grid.index(where)
        if cell is None:
            device.unplaced += 1
        else:
            entries.append(device.place(offer, where, cell))
    if entries:
        await connection.execute(insert(placements), entries)
