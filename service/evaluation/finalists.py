"""Finalists: the best elites are examined more closely when a search would end, and lose their cells if they fail.

A trusted worker traces the finalist again, for the search's shapes and for random ones drawn from a fresh secret. The
new trace must be the very kernel that holds the cell. Then a device examines it on those shapes, and on a card also
under the memory sanitizer. A finalist that could not be examined keeps its cell, and its result says so.
"""

import secrets
from collections.abc import Collection, Iterable

from archive.records import CandidateRecord, EliteRecord, SearchRecord
from archive.store import ReportKey, Store
from kernelreef.models import FinalistResult
from service.evaluation.figure_labels import stamp_of
from service.evaluation.jobs import (
    FINAL,
    FINAL_TRACE,
    NEAR_TRACE,
    EvaluationCase,
    final_id,
    final_job,
    final_trace_job,
    finalist_of,
    purpose_of,
)
from service.evaluation.reports import record
from service.events import EliteWithdrawn, EventBus
from service.operators.shapes import far_shape, random_shapes
from workers.protocol import (
    PROTOCOL_VERSION,
    AnyReport,
    Bundle,
    Device,
    Operator,
    Outcome,
    Provenance,
    Report,
    Shape,
    ShapeRole,
    Stage,
    TraceReport,
)
from workers.queue import Dispatcher

RANDOM_SHAPES = 200
"""Number of random shapes of a finalist on a card (evaluation protocol, stage C8)."""
INTERPRETED_SHAPES = 8
"""Number of random shapes of a finalist on devices that interpret kernels on a CPU, which only small shapes allow."""
FINALISTS = 3
"""Number of elites on each device that are examined, the best first: users export these. Each costs a trace of all its
shapes and, on a card, minutes of the sanitizer."""
UNDECIDED = frozenset({Outcome.WORKER_LOST, Outcome.TRACE_TIMEOUT, Outcome.TRACE_MEMORY})
"""Outcomes of a finalist's trace that say nothing about the kernel: so many shapes took too much time or memory."""
ANOTHER = "a second trace gave a different kernel: its host code does not do the same each time"
"""Reason for failing a finalist whose second trace differs."""
OUT_OF_RANGE = "within the operator's ranges no input has more than 2^31 elements"
"""First of the reasons why a finalist meets no index beyond 2^31; the next three are the others."""
MET_BEFORE = "a shape of the search has such indices already"
HOURS = "an interpreter would take hours for {}"
UNTRACED = "its plan for {} could not be traced"


async def finalists(store: Store, elites: Iterable[EliteRecord]) -> dict[str, FinalistResult]:
    """Return the results of examined elites, by the job that each elite rests on."""
    holders = list(elites)
    stamps: dict[tuple[str, int, str], FinalistResult] = {}
    for document in await store.reports.finals_on({elite.candidate for elite in holders}):
        report = Report.model_validate_json(document)
        stamps[report.candidate, report.variant, report.device.name] = stamp_of(report)
    keys = {elite.job: (elite.candidate, elite.variant, elite.device) for elite in holders}
    return {job: stamps[key] for job, key in keys.items() if key in stamps}


class Finalists:
    """Requests examinations and applies their reports. Its memory can be rebuilt from the archive."""

    def __init__(self, store: Store, dispatcher: Dispatcher, events: EventBus) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._events = events
        self._waiting: dict[str, set[str]] = {}

    async def complete(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if the best elites of a search have been examined; request the missing examinations once."""
        if not self._waiting.get(search.id):
            queued: set[str] | None = None
            waiting: set[str] = set()
            for device in search.devices:
                if Device.parse(device).kind == "recorded":
                    continue  # A recording holds only the shapes that were measured.
                for elite in await self._store.elites.top(search.id, device, search.axes_version, FINALISTS):
                    case = await self._case(search, operator, elite)
                    if await self._is_known(case):
                        continue
                    queued = await self._dispatcher.outstanding(search.id) if queued is None else queued
                    await self._order(case, queued)
                    waiting.add(final_id(case))
            self._waiting[search.id] = waiting
        return not self._waiting[search.id]

    async def apply(self, search: SearchRecord, operator: Operator, report: AnyReport) -> None:
        """Apply the report on a finalist's job."""
        candidate = await self._store.candidates.get(report.candidate or "")
        if isinstance(report, TraceReport):
            await self._take_trace(search, operator, candidate, report)
        else:
            await self._take(
                EvaluationCase(search, operator, candidate, report.variant, report.bundle, report.device), report
            )

    def awaits(self, search: str) -> bool:
        """Return True if a search waits for examinations."""
        return bool(self._waiting.get(search))

    def forget(self, search: str) -> None:
        """Clear the in-memory state of a search; the next sweep rebuilds it."""
        self._waiting.pop(search, None)

    async def _take_trace(
        self, search: SearchRecord, operator: Operator, candidate: CandidateRecord, report: TraceReport
    ) -> None:
        """Request the examination of a finalist that was traced again; fail it if the trace failed or differs."""
        _, number, device = finalist_of(report.job)
        holder = next(
            (item for item in await self._store.candidates.variants(candidate.id) if item.index == number), None
        )
        if holder is None or holder.bundle is None:
            return
        case = EvaluationCase(search, operator, candidate, number, holder.bundle, device)
        traced = next((item for item in report.variants if item.index == number), None)
        outcome, reason = (report.outcome, report.reason) if traced is None else (traced.outcome, traced.reason)
        bundle = None if traced is None else traced.bundle
        far, unreached = _far(case)
        if far is not None and purpose_of(report.job) == NEAR_TRACE:
            unreached, far = UNTRACED.format(far.key), None
        if far is not None and (bundle is None or report.outcome is not Outcome.CORRECT or not report.graphs):
            # So large a shape may exceed the limits of a plan or of the trace: trace again without it.
            await self._dispatcher.submit(final_trace_job(case, _drawn(case), NEAR_TRACE))
            return
        if bundle is not None and report.outcome is Outcome.CORRECT and not _is_same(bundle, case):
            bundle, outcome, reason = None, Outcome.NONDETERMINISTIC, ANOTHER
        if bundle is not None and report.graphs:
            await self._dispatcher.submit(final_job(case, bundle, report.graphs, unreached))
            return
        if outcome in UNDECIDED or outcome is Outcome.CORRECT:
            outcome = Outcome.WORKER_LOST
            reason = f"its random shapes could not be traced: {reason or report.reason}"
        await self._take(case, _untraced(case, report, outcome, reason))

    async def _take(self, case: EvaluationCase, report: Report) -> None:
        """Store the result of an examination; a failed finalist loses its cells."""
        await self._store.reports.save(record(case, report))
        self._waiting.get(case.search.id, set()).discard(final_id(case))
        stamp = stamp_of(report)
        if stamp.standing != "failed":
            return
        for cell in await self._store.elites.withdraw(case.search.id, case.device.name, case.bundle, report.job):
            self._events.publish(
                EliteWithdrawn(
                    search=case.search.id,
                    device=case.device.name,
                    cell=cell,
                    candidate=case.candidate.id,
                    reason=stamp.reason,
                )
            )

    async def _case(self, search: SearchRecord, operator: Operator, elite: EliteRecord) -> EvaluationCase:
        candidate = await self._store.candidates.get(elite.candidate)
        return EvaluationCase(search, operator, candidate, elite.variant, elite.bundle, Device.parse(elite.device))

    async def _is_known(self, case: EvaluationCase) -> bool:
        """Return True if it was examined, or an equal bundle was; that report then counts for it too."""
        about = ReportKey(case.search.operator, case.bundle, case.device.name, PROTOCOL_VERSION)
        documents = await self._store.reports.finals(about)
        reports = [Report.model_validate_json(document) for document in documents]
        mine = await self._store.reports.finals_on([case.candidate.id])
        reports += [report for report in map(Report.model_validate_json, mine) if report.job == final_id(case)]
        if not reports:
            return False
        about_it = {"job": final_id(case), "search": case.search.id, "candidate": case.candidate.id}
        await self._take(case, reports[0].model_copy(update={**about_it, "variant": case.variant}))
        return True

    async def _order(self, case: EvaluationCase, queued: Collection[str]) -> None:
        if any(final_id(case, purpose) in queued for purpose in (FINAL, FINAL_TRACE, NEAR_TRACE)):
            return
        far, _ = _far(case)
        await self._dispatcher.submit(final_trace_job(case, [*_drawn(case), *([far] if far else [])]))


def _drawn(case: EvaluationCase) -> list[Shape]:
    """Draw a finalist's random shapes from a fresh secret; only small ones if they are interpreted."""
    small = not case.device.measures
    known = [Shape.model_validate(shape).key for shape in case.search.shapes]
    count = INTERPRETED_SHAPES if small else RANDOM_SHAPES
    return random_shapes(case.operator, secrets.randbits(64), count, known, small=small)


def _far(case: EvaluationCase) -> tuple[Shape | None, str]:
    return look_far(case.operator, case.device, [shape["dims"] for shape in case.search.shapes])


def look_far(operator: Operator, device: Device, known: Iterable[dict[str, int]]) -> tuple[Shape | None, str]:
    """Return a finalist's shape with indices beyond 2^31, or None and the reason why there is none.

    Args:
        operator: The operator, which gives the ranges.
        device: The device that examines the finalist.
        known: Dimensions of the shapes that it was judged at.
    """
    far = far_shape(operator)
    if far is None:
        return None, OUT_OF_RANGE
    if any(map(operator.is_far, known)):
        return None, MET_BEFORE
    return (far, "") if device.measures else (None, HOURS.format(far.key))


def _is_same(bundle: Bundle, case: EvaluationCase) -> bool:
    """Return True if a bundle without its random shapes is the one that holds the cell."""
    plans = [plan for plan in bundle.plans if plan.shape.role is not ShapeRole.RANDOM]
    return bundle.restricted(plans).identity == case.bundle


def _untraced(case: EvaluationCase, report: TraceReport, outcome: Outcome, reason: str) -> Report:
    """Make the report on a finalist that has no bundle to examine."""
    provenance = Provenance.MEASURED if case.device.measures else Provenance.PREDICTED
    return Report(
        kind=FINAL,
        job=final_id(case),
        search=case.search.id,
        candidate=case.candidate.id,
        variant=case.variant,
        bundle=case.bundle,
        device=case.device,
        worker=report.worker,
        versions=report.versions,
        outcome=outcome,
        reason=reason,
        stage=Stage.FINAL,
        line=report.line,
        provenance=provenance,
        stages_s=report.stages_s,
    )
