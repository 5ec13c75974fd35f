"""Promotion of a correct variant: its objective, coordinates and cell, and the offer to that cell.

On `model` and `recorded` devices figures do not change between runs, so a strictly greater objective wins the cell
without a confirm. On devices that measure, a would-be winner is judged a second time first.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from archive.descriptors import coordinates
from archive.errors import RecordNotFound
from archive.grid import Grid
from archive.records import EMPTY_CELL, EliteRecord, Offer, Placement, SearchRecord
from archive.store import Store
from service.evaluation.jobs import EvaluationCase, incumbent_of
from service.evaluation.reports import is_unverified
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import PRACTICAL_MARGIN, Outcome, Ratio, Report, Shape, ShapeRole, Trust

log = structlog.get_logger(__name__)


def times_us(report: Report) -> dict[str, float]:
    """Return the median time of each benchmark shape in a report, microseconds by shape key."""
    return {result.shape: result.mid_us for result in report.shapes if result.mid_us is not None}


def speedup(report: Report, baseline_us: Mapping[str, float], weights: Mapping[str, float]) -> Ratio | None:
    """Compute the speedup on a device that does not measure: the weighted geometric mean over the benchmark shapes.

    The bounds combine the bounds of all shapes. Returns None if a benchmark shape has no time.

    Args:
        report: Report on a correct variant.
        baseline_us: Best baseline time by shape key, microseconds.
        weights: Weight by shape key; its keys are the benchmark shapes.
    """
    results = {result.shape: result for result in report.shapes}
    low = mid = high = 0.0
    for shape, weight in weights.items():
        result, base = results.get(shape), baseline_us.get(shape)
        if base is None or result is None or not (result.mid_us and result.low_us and result.high_us):
            return None
        low += weight * math.log(base / result.high_us)
        mid += weight * math.log(base / result.mid_us)
        high += weight * math.log(base / result.low_us)
    total = sum(weights.values())
    return Ratio(low=math.exp(low / total), mid=math.exp(mid / total), high=math.exp(high / total))


def gain(report: Report, baseline_us: Mapping[str, float], weights: Mapping[str, float]) -> Ratio | None:
    """Return the speedup of a report; None if the variant is not correct or the speedup is unknown.

    Devices that measure report it themselves, over the best baseline of each shape; elsewhere it is computed here.
    """
    if report.outcome is not Outcome.CORRECT:
        return None
    return report.speedup if report.device.measures else speedup(report, baseline_us, weights)


def outdoes(confirm: Report) -> bool:
    """Return True if a confirm gives its challenger the cell.

    In an empty cell the challenger only has to be correct again. An incumbent has to be beaten by more than the
    practical margin. Only a trusted worker's confirm counts, even if an untrusted one measured the challenger.
    """
    if _known(confirm) is None or is_unverified(confirm):
        return False
    if incumbent_of(confirm) == EMPTY_CELL:
        return True
    return confirm.rival is not None and confirm.rival.low > 1 + PRACTICAL_MARGIN


def benchmark_weights(search: SearchRecord) -> dict[str, float]:
    """Return the weight of each benchmark shape of a search, by shape key."""
    return weights_of(Shape.model_validate(shape) for shape in search.shapes)


def weights_of(shapes: Iterable[Shape]) -> dict[str, float]:
    """Return the weight of each benchmark shape, by shape key."""
    return {shape.key: shape.weight for shape in shapes if shape.role is ShapeRole.BENCHMARK}


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

    def __init__(self, store: Store, unit_of_work: UnitOfWork) -> None:
        self._store = store
        self._unit_of_work = unit_of_work

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
        known = _known(measured)
        place = None if known is None else await self.place(case)
        if known is None or place is None:
            return None
        met = {case.bundle}
        for confirm in confirms:
            if not outdoes(confirm) or not await self._is_stale(case, place, confirm):
                return None
            known = _known(confirm) or known
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

    async def _is_stale(self, case: EvaluationCase, place: GridPosition, confirm: Report) -> bool:
        """Offer the result of a confirm, unless it holds the cell already. Returns True if the holder has changed."""
        holder = await self._holder(case, place)
        if confirm.speedup is None or (holder is not None and holder.job == confirm.job):
            return False
        offer = _offer(case, place, confirm, confirm.speedup, incumbent_of(confirm))
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


def _known(report: Report) -> Ratio | None:
    """Return the measured speedup; None unless the variant is correct, was compared and has a trust above D."""
    if report.outcome is not Outcome.CORRECT:
        return None
    reason = "no baseline was timed" if report.speedup is None else "trust D" if report.trust is Trust.D else ""
    if reason:
        log.warning("not offered", reason=reason, job=report.job, search=report.search)
    return None if reason else report.speedup
