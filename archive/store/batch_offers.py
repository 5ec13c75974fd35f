"""Offers in batches: challengers that need no confirm are decided within one transaction.

Most offers of a search that has run for a while lose. An offer that loses against the holder as read is only entered in
the history. For one that might win the database decides as for a single offer: in one conditional statement.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.progress import PROMOTED
from archive.records import Offer, Placement
from archive.store.counters import CountedEvent, count_events
from archive.store.elites import CELL, CHALLENGER, claim, placement_of
from archive.store.engine import upsert
from archive.tables import elites, placements

Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Placed:
    placement: Placement
    revision: int | None


async def place(connection: AsyncConnection, offers: Sequence[Offer]) -> list[Placement]:
    """Decide offers without an incumbent, in order; a job's second offer for a cell gets the first result."""
    if not offers:
        return []
    decided = await _answered(connection, offers)
    holders = await _holders(connection, offers)
    entries: dict[Key, Offer] = {}
    promoted: Counter[CountedEvent] = Counter()
    for offer in offers:
        key = (offer.job, offer.axes_version, offer.cell)
        if key in decided:
            continue
        decided[key] = await _decide(connection, offer, holders)
        entries[key] = offer
        if decided[key].revision is not None:
            promoted[CountedEvent(offer.search, offer.device, offer.emitter, PROMOTED)] += 1
    if entries:
        rows = [_entry(offer, decided[key]) for key, offer in entries.items()]
        statement = upsert(connection, placements).on_conflict_do_nothing(
            index_elements=["job", "axes_version", "cell"]
        )
        await connection.execute(statement, rows)
    await count_events(connection, promoted)
    return [decided[offer.job, offer.axes_version, offer.cell].placement for offer in offers]


async def _decide(connection: AsyncConnection, offer: Offer, holders: dict[Key, float]) -> _Placed:
    cell = _cell(offer)
    # The objective of a cell's holder only grows here, so an offer that loses against an older one loses.
    if cell in holders and offer.objective <= holders[cell]:
        return _Placed(Placement.REJECTED, None)
    revision = await connection.scalar(claim(connection, offer).returning(elites.c.revision))
    if revision is not None:
        holders[cell] = offer.objective
    return _Placed(placement_of(offer, revision), revision)


async def _answered(connection: AsyncConnection, offers: Sequence[Offer]) -> dict[Key, _Placed]:
    """Return the results of earlier offers of the same jobs."""
    columns = (placements.c.job, placements.c.axes_version, placements.c.cell)
    statement = select(*columns, placements.c.placement, placements.c.revision)
    statement = statement.where(placements.c.job.in_({offer.job for offer in offers}))
    rows = await connection.execute(statement)
    return {(job, axes, cell): _Placed(placement, revision) for job, axes, cell, placement, revision in rows}


async def _holders(connection: AsyncConnection, offers: Sequence[Offer]) -> dict[Key, float]:
    """Return the objectives of the holders of the offers' cells."""
    wanted: dict[Key, set[int]] = {}
    for offer in offers:
        wanted.setdefault(_cell(offer)[:-1], set()).add(offer.cell)
    found: dict[Key, float] = {}
    for grid, cells in wanted.items():
        # One query per grid, because SQLite reads the whole table if rows are compared with a list of rows.
        here = (elites.c[name] == value for name, value in zip(CELL, grid, strict=False))
        statement = select(elites.c.cell, elites.c.objective).where(*here, elites.c.cell.in_(cells))
        found.update(((*grid, cell), objective) for cell, objective in await connection.execute(statement))
    return found


def _cell(offer: Offer) -> Key:
    return tuple(getattr(offer, name) for name in CELL)


def _entry(offer: Offer, decided: _Placed) -> dict[str, Any]:
    values = {name: getattr(offer, name) for name in (*CELL, *CHALLENGER)}
    return {**values, "placement": decided.placement, "revision": decided.revision, "offered_at": now()}
