"""Provisional holders: challengers that hold cells by their first measurement, until a confirm decides.

They stand beside the elites, never in their place: the elite of a cell stays what it is until a confirmed challenger
takes the cell. So whatever reads elites reads confirmed figures only.
"""

from sqlalchemy import delete, exists, func, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.descriptors import coordinates
from archive.progress import CORRECT
from archive.records import WON, Offer, Placement, ProvisionalRecord
from archive.store.elites import CELL, CHALLENGER, answer, decide, enter, require_figures
from archive.store.engine import Database, Upsert, select_record, upsert
from archive.tables import bundles, candidates, elites, placements, provisional_holders, searches

COLUMNS = (*CELL, *CHALLENGER, "coordinates")
"""Columns that a provisional holder copies from an offer."""


class ProvisionalStore:
    """Provisional holders of all searches, at most one per cell."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(self, offer: Offer, margin: float) -> Placement:
        """Let a challenger hold its cell without a confirm. Applied once per job and cell, as every offer.

        Args:
            offer: The challenger.
            margin: Fraction by which its lower bound has to exceed the middle of the cell's elite, and of its present
                provisional holder.

        Returns:
            PROVISIONAL if it holds the cell now, REJECTED if it does not.

        Raises:
            ValueError: If the objective or one of its bounds is not finite.
            RecordConflict: If the search or the candidate is unknown.
        """
        require_figures(offer)
        async with self._database.write() as connection:
            seq = await connection.scalar(enter(connection, offer).returning(placements.c.seq))
            if seq is None:
                return await answer(connection, offer)
            statement = _hold(connection, offer, margin).returning(provisional_holders.c.cell)
            if await connection.scalar(statement) is None:
                return Placement.REJECTED
            entry = update(placements).where(placements.c.seq == seq)
            await connection.execute(entry.values(placement=Placement.PROVISIONAL))
            return Placement.PROVISIONAL

    async def promote(self, offer: Offer, margin: float) -> Placement:
        """Offer a confirmed challenger its cell, as `EliteStore.offer` does.

        A confirm may find less than the measurement by which the challenger held its cell. So the best challenger that
        it kept out holds the cell from now on, if it exceeds the new elite. This is the same transaction: otherwise a
        kill would leave it out.

        Args:
            offer: The challenger, with the job of its confirm.
            margin: As in `hold`.

        Returns:
            As `EliteStore.offer`.

        Raises:
            ValueError: If the objective or one of its bounds is not finite.
            RecordConflict: If the search or the candidate is unknown.
        """
        require_figures(offer)
        async with self._database.write() as connection:
            placement = await decide(connection, offer)
            if placement in WON:
                await _hold_next(connection, offer, margin)
            return placement

    async def give_back(self, refused: Offer, placement: Placement, margin: float) -> bool:
        """Give a cell back that this bundle holds provisionally: to its elite, if it has one. Idempotent.

        The best challenger that only the refused holder kept out holds the cell from now on, if it exceeds the elite.
        Its entry in the history says so. This is the same transaction: otherwise a kill would leave it out.

        Args:
            refused: The holder, with the job that decided against it.
            placement: Entry in the history: REJECTED if it was not faster, WITHDRAWN if it was wrong.
            margin: As in `hold`.

        Returns:
            True if it held the cell.
        """
        here = [provisional_holders.c[name] == getattr(refused, name) for name in (*CELL, "bundle")]
        async with self._database.write() as connection:
            seq = await connection.scalar(enter(connection, refused).returning(placements.c.seq))
            if seq is not None:
                entry = update(placements).where(placements.c.seq == seq)
                await connection.execute(entry.values(placement=placement))
            lost = bool((await connection.execute(delete(provisional_holders).where(*here))).rowcount)
            if lost:
                await _hold_next(connection, refused, margin)
            return lost

    async def get(self, search: str, device: str, axes_version: int, cell: int) -> ProvisionalRecord | None:
        """Return the provisional holder of a cell; None if it has none."""
        found = await self._select(search, device, axes_version, cell)
        return found[0] if found else None

    async def _select(
        self, search: str, device: str, axes_version: int, cell: int | None = None
    ) -> list[ProvisionalRecord]:
        held = provisional_holders.c
        statement = select_record(provisional_holders, ProvisionalRecord).where(
            held.search == search, held.device == device, held.axes_version == axes_version
        )
        if cell is not None:
            statement = statement.where(held.cell == cell)
        return await self._database.all(ProvisionalRecord, statement.order_by(held.objective.desc(), held.cell))

    # Last, because from here on `list` means this method.
    async def list(self, search: str, device: str, axes_version: int) -> list[ProvisionalRecord]:
        """Return the provisional holders of a grid, the largest objective first."""
        return await self._select(search, device, axes_version)


def _hold(connection: AsyncConnection, offer: Offer, margin: float) -> Upsert:
    """Take the cell unless its elite or its provisional holder is as good."""
    values = {name: getattr(offer, name) for name in COLUMNS} | {"placed_at": now()}
    as_good = (elites.c.mid * (1 + margin) >= offer.low, *(elites.c[name] == values[name] for name in CELL))
    row = select(*(literal(value, provisional_holders.c[name].type) for name, value in values.items()))
    statement = upsert(connection, provisional_holders).from_select(list(values), row.where(~exists().where(*as_good)))
    return statement.on_conflict_do_update(
        index_elements=CELL,
        set_={name: value for name, value in values.items() if name not in CELL},
        where=provisional_holders.c.mid * (1 + margin) < offer.low,
    )


async def _hold_next(connection: AsyncConnection, decided: Offer, margin: float) -> None:
    """Let the best challenger of a cell hold it that no confirm has decided about, unless the elite is as good."""
    entries = placements.c
    here = [entries[name] == getattr(decided, name) for name in CELL]
    # The second entry of a variant in a cell is by its confirm, which counts for every variant with that bundle.
    confirmed = select(entries.bundle).where(*here).group_by(entries.bundle, entries.candidate, entries.variant)
    confirmed = confirmed.having(func.count() > 1)
    settled = select(entries.bundle).where(*here, entries.placement.in_((Placement.WITHDRAWN, *WON)))
    others = (entries.bundle != decided.bundle, entries.bundle.not_in(confirmed.union(settled)))
    waiting = select(*(entries[name] for name in ("seq", *CELL, *CHALLENGER)), bundles.c.readings, searches.c.shapes)
    waiting = waiting.join(bundles, bundles.c.identity == entries.bundle).join(
        searches, searches.c.id == entries.search
    )
    waiting = waiting.join(candidates, candidates.c.id == entries.candidate)
    right = or_(candidates.c.outcome.is_(None), candidates.c.outcome == CORRECT)
    waiting = waiting.where(*here, right, *others)
    row = (await connection.execute(waiting.order_by(entries.low.desc(), entries.seq).limit(1))).one_or_none()
    if row is None:
        return
    figures = row._asdict()
    seq, readings, shapes = figures.pop("seq"), figures.pop("readings"), figures.pop("shapes")
    first = next(place for place, shape in enumerate(shapes) if shape["role"] == "benchmark")
    offer = Offer(**figures, coordinates=coordinates(readings[first]))
    statement = _hold(connection, offer, margin).returning(provisional_holders.c.cell)
    if await connection.scalar(statement) is not None:
        entry = update(placements).where(entries.seq == seq)
        await connection.execute(entry.values(placement=Placement.PROVISIONAL))
