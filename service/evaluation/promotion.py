"""Promotion of a correct variant: its objective, coordinates and cell, and the offer to that cell.

On `model` and `recorded` devices figures do not change between runs, so a strictly greater objective wins the cell
without a confirm. On devices that measure, a would-be winner is judged a second time first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from archive.descriptors import coordinates
from archive.errors import RecordNotFound
from archive.grid import Grid
from archive.records import EMPTY_CELL, EliteRecord, Offer, Placement, SearchRecord
from archive.store import Store
from service.evaluation.jobs import EvaluationCase, incumbent_of
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import is_unverified
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import PRACTICAL_MARGIN, Outcome, Ratio, Report, ShapeRole, Trust

log = structlog.get_logger(__name__)


def outdoes(confirm: Report) -> bool:
    """Return True if a confirm gives its challenger the cell.

    In an empty cell the challenger only has to be correct again. An incumbent has to be beaten by more than the
    practical margin. Only a trusted worker's confirm counts, even if an untrusted one measured the challenger.
    """
    if not _counts(confirm) or is_unverified(confirm):
        return False
    if incumbent_of(confirm) == EMPTY_CELL:
        return True
    return confirm.rival is not None and confirm.rival.low > 1 + PRACTICAL_MARGIN


def first_benchmark(search: SearchRecord) -> int:
    """Return the index of a search's first benchmark shape: coordinates use its readings."""
    return next(i for i, shape in enumerate(search.shapes) if shape["role"] == ShapeRole.BENCHMARK)


@dataclass(frozen=True)
class GridPosition:
    """Position of a case in its search's grid."""

    cell: int
    coordinates: Mapping[str, Any]


class Promotion:
    """Offers correct variants to their cells and publishes the promotions."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork, reference_seed: ReferenceSeed) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._reference_seed = reference_seed

    async def place(self, case: EvaluationCase) -> GridPosition | None:
        """Return the position of a case; None if an axis has no value."""
        readings = (await self._unit_of_work.readings(case.bundle))[first_benchmark(case.search)]
        found = coordinates(readings)
        cell = Grid(case.search.axes).index(found)
        return None if cell is None else GridPosition(cell, found)

    def consider(self, case: EvaluationCase, place: GridPosition, report: Report, speedup: Ratio) -> None:
        """Offer a correct variant on a device that does not measure. Idempotent by the report's job."""
        self._unit_of_work.offer(_offer(case, place, report, speedup, None))

    async def would_win(self, case: EvaluationCase, place: GridPosition, speedup: Ratio) -> bool:
        """Return True if a variant on a device that does not measure would win its cell with this speedup."""
        known = await self._unit_of_work.objective(
            case.search.id, case.device.name, case.search.axes_version, place.cell
        )
        return known is None or speedup.low > known

    async def contest(self, case: EvaluationCase, measured: Report, confirms: Sequence[Report]) -> str | None:
        """Offer a variant on a device that measures, as far as its reports allow. Idempotent.

        Args:
            case: The variant.
            measured: Its first report.
            confirms: Its confirms so far, oldest first.

        Returns:
            The bundle to confirm it against next, or `EMPTY_CELL`. None if no confirm is needed, because the variant
            holds its cell or cannot win it.
        """
        known = await self._known(case, measured)
        place = None if known is None else await self.place(case)
        if known is None or place is None:
            return None
        met = {case.bundle}
        for confirm in confirms:
            if not outdoes(confirm) or not await self._is_stale(case, place, confirm):
                return None
            known = await self._known(case, confirm) or known
            met.add(incumbent_of(confirm) or EMPTY_CELL)
        holder = await self._holder(case, place)
        incumbent = EMPTY_CELL if holder is None else holder.bundle
        loses = holder is not None and known.low <= holder.objective
        return None if loses or incumbent in met else incumbent

    async def _holder(self, case: EvaluationCase, place: GridPosition) -> EliteRecord | None:
        await self._unit_of_work.commit()
        try:
            search = case.search
            return await self._store.elites.get(search.id, case.device.name, search.axes_version, place.cell)
        except RecordNotFound:
            return None

    async def _known(self, case: EvaluationCase, report: Report) -> Ratio | None:
        """Return the speedup of a measured report that counts, in the unit of the search's objectives."""
        return await self._reference_seed.speedup(case.search, report) if _counts(report) else None

    async def _is_stale(self, case: EvaluationCase, place: GridPosition, confirm: Report) -> bool:
        """Offer the result of a confirm, unless it holds the cell already. Returns True if the holder has changed."""
        holder, speedup = await self._holder(case, place), await self._known(case, confirm)
        if speedup is None or (holder is not None and holder.job == confirm.job):
            return False
        offer = _offer(case, place, confirm, speedup, incumbent_of(confirm))
        return await self._unit_of_work.decide(offer) is Placement.STALE


def _offer(case: EvaluationCase, place: GridPosition, report: Report, speedup: Ratio, incumbent: str | None) -> Offer:
    return Offer(
        search=case.search.id,
        device=case.device.name,
        axes_version=case.search.axes_version,
        cell=place.cell,
        coordinates=place.coordinates,
        candidate=case.candidate.id,
        variant=case.variant,
        bundle=case.bundle,
        job=report.job,
        emitter=case.candidate.emitter,
        objective=speedup.low,
        low=speedup.low,
        mid=speedup.mid,
        high=speedup.high,
        incumbent=incumbent,
    )


def _counts(report: Report) -> bool:
    """Return True if a measured report may lead to an offer: the variant is correct, and its trust is above D."""
    if report.outcome is not Outcome.CORRECT:
        return False
    if report.trust is Trust.D:
        log.warning("not offered", reason="trust D", job=report.job, search=report.search)
    return report.trust is not Trust.D
