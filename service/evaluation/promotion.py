"""Promotion of correct variants: the steps of `next_step`, one after another, until one has to wait for a report."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from archive.descriptors import coordinates
from archive.grid import Grid
from archive.records import Offer, Placement, SearchRecord
from archive.store import Store
from service.evaluation.assignments import JobAssignments
from service.evaluation.facts import FactReader
from service.evaluation.jobs import AGAIN, EvaluationCase, retrace_id
from service.evaluation.next_step import (
    CaseFacts,
    Confirm,
    GiveBack,
    Hold,
    Promote,
    Repeat,
    ReportFacts,
    SecondTrace,
    next_step,
)
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.retraces import RetraceRefused, Retraces
from service.evaluation.unit_of_work import UnitOfWork
from service.events import EliteWithdrawn
from workers.protocol import PRACTICAL_MARGIN, ShapeRole


def first_benchmark(search: SearchRecord) -> int:
    """Return the index of a search's first benchmark shape: coordinates use its readings."""
    return next(i for i, shape in enumerate(search.shapes) if shape["role"] == ShapeRole.BENCHMARK)


@dataclass(frozen=True)
class GridPosition:
    """Position of a case in its search's grid."""

    cell: int
    coordinates: Mapping[str, Any]


class Promotion:
    """Takes variants towards their cells, and publishes what becomes of them."""

    def __init__(
        self,
        store: Store,
        unit_of_work: UnitOfWork,
        reference_seed: ReferenceSeed,
        assignments: JobAssignments,
        retraces: Retraces,
    ) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._facts = FactReader(store, unit_of_work, reference_seed)
        self._assignments = assignments
        self._retraces = retraces

    async def proceed(
        self, case: EvaluationCase, queued: Collection[str], *, leads: bool = False
    ) -> RetraceRefused | None:
        """Take a variant as far as its reports allow. Idempotent; requests what the next step needs.

        Args:
            case: The variant.
            queued: Ids of jobs that are in the queue already.
            leads: True if it is to be confirmed where it holds its cell provisionally.

        Returns:
            The refusal of its candidate, if its second trace differs from the first.
        """
        place = await self.place(case)
        if place is None:
            return None
        offered: set[str] = set()
        while True:
            refused = await self._retraces.known(case.candidate)
            facts = await self._facts.of_case(case, refused, leads=leads)
            step = next_step(facts, await self._facts.of_cell(case, place.cell))
            if isinstance(step, Hold) and (wrong := await self._assignments.refutation(case)) is not None:
                await self._unit_of_work.save_report(case, wrong)
                continue
            if isinstance(step, Hold | Promote):
                if step.report.job not in offered and await self._offer(case, place, step):
                    offered.add(step.report.job)
                    continue
            elif isinstance(step, Repeat | Confirm | SecondTrace):
                if await self._request(case, step, refused, queued):
                    continue
            elif isinstance(step, GiveBack):
                await self._give_back(case, place, step, facts, refused)
            return refused if isinstance(refused, RetraceRefused) and facts.measurement else None

    async def place(self, case: EvaluationCase) -> GridPosition | None:
        """Return the position of a case; None if an axis has no value."""
        readings = (await self._unit_of_work.readings(case.bundle))[first_benchmark(case.search)]
        found = coordinates(readings)
        cell = Grid(case.search.axes).index(found)
        return None if cell is None else GridPosition(cell, found)

    async def _request(
        self,
        case: EvaluationCase,
        step: Repeat | Confirm | SecondTrace,
        retraced: RetraceRefused | bool | None,
        queued: Collection[str],
    ) -> bool:
        """Request what a step needs. Returns True if the archive has it already."""
        if isinstance(step, SecondTrace) or (isinstance(step, Confirm) and retraced is None):
            self._retraces.request(case, queued)  # Beside the confirm: it waits for the longer of the two.
        if isinstance(step, SecondTrace):
            return False
        asked = step.incumbent if isinstance(step, Confirm) else AGAIN
        found = await self._assignments.obtain(case, asked, queued)
        if found is not None:
            await self._unit_of_work.save_report(case, found)
        return found is not None

    async def _offer(self, case: EvaluationCase, place: GridPosition, step: Hold | Promote) -> bool:
        """Offer a variant to its cell. Returns True if its next step has to be looked for."""
        offer = _offer(case, place, step.report)
        if isinstance(step, Hold):
            return await self._unit_of_work.hold(offer, PRACTICAL_MARGIN) is Placement.PROVISIONAL
        if offer.incumbent is None:
            self._unit_of_work.offer(offer)
            return False
        return await self._unit_of_work.promote(offer, PRACTICAL_MARGIN) is Placement.STALE

    async def _give_back(
        self,
        case: EvaluationCase,
        place: GridPosition,
        step: GiveBack,
        facts: CaseFacts,
        refused: RetraceRefused | bool | None,
    ) -> None:
        """Give the cell back to its elite, or to the next challenger. The history says if it was slower, or wrong."""
        report = step.report
        if report is not None and report.counts:
            lost = await self._unit_of_work.give_back(_offer(case, place, report), Placement.REJECTED, PRACTICAL_MARGIN)
        elif facts.measurement is not None:
            job = retrace_id(case.candidate.id) if report is None else report.job
            wrong = replace(_offer(case, place, facts.measurement), job=job)
            lost = await self._unit_of_work.give_back(wrong, Placement.WITHDRAWN, PRACTICAL_MARGIN)
        else:
            return
        if lost:
            self._unit_of_work.events.publish(
                EliteWithdrawn(
                    search=case.search.id,
                    device=case.device.name,
                    cell=place.cell,
                    candidate=case.candidate.id,
                    reason=refused.reason if isinstance(refused, RetraceRefused) else step.reason,
                    provisional=True,
                )
            )


def _offer(case: EvaluationCase, place: GridPosition, report: ReportFacts) -> Offer:
    if report.speedup is None:
        raise ValueError(f"job {report.job} has no speedup to offer")
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
        objective=report.speedup.low,
        low=report.speedup.low,
        mid=report.speedup.mid,
        high=report.speedup.high,
        incumbent=report.incumbent,
    )
