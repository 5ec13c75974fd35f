"""Finalists: the best elites of a search are examined more closely, and lose their cells if they fail.

An elite that leads for long enough is examined beside its search. The others are examined after the search is done;
until then they count as unexamined. The jobs are the last in their queues, so no candidate waits for one in a queue.

A trusted worker traces the finalist again, for the search's shapes and for random ones drawn from a fresh secret. The
new trace must be the very kernel that holds the cell. Then a device examines it on those shapes, and on a card also
under the memory sanitizer. A finalist that could not be examined keeps its cell, and its result says so.
"""

import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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
from service.evaluation.retraces import other_toolchain
from service.events import EliteExamined, EliteWithdrawn, EventBus
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
LEADS_S = 120.0
"""Seconds for which an elite must have held its cell before it is examined beside its search. Most leaders of a
search's first minutes do not last that long."""
LEADS_SHARE = 0.5
"""Share of the search's running time for which it must have held its cell. So at most a few leaders per doubling of
the running time cost an examination, however long the search runs."""
LOOK_S = 5.0
"""Seconds between two looks for such an elite."""
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
    """Return the results of elites, by the job that each elite rests on; `unexamined` for those without one."""
    holders = list(elites)
    found = await _examinations(store, {elite.candidate for elite in holders})
    return {elite.job: stamp_of(found.get((elite.candidate, elite.variant, elite.device))) for elite in holders}


async def examination(store: Store, candidate: str, variant: int, device: str) -> Report | None:
    """Return the report of a variant's examination as a finalist; None if it is unexamined."""
    return (await _examinations(store, [candidate])).get((candidate, variant, device))


async def _examinations(store: Store, candidates: Collection[str]) -> dict[tuple[str, int, str], Report]:
    """Read the latest examination of each variant on each device."""
    documents = await store.reports.finals_on(candidates)
    reports = [Report.model_validate_json(document) for document in documents]
    return {(report.candidate, report.variant, report.device.name): report for report in reports}


@dataclass(frozen=True)
class ExaminationProgress:
    """Number of a search's present finalists, and how many of them are examined."""

    examined: int
    finalists: int


async def examination_progress(store: Store, search: SearchRecord) -> ExaminationProgress:
    """Count the finalists of a search, and those that are examined."""
    jobs = [_job_of(elite) for elite in await _finalists(store, search)]
    return ExaminationProgress(len(await store.reports.known(jobs)), len(jobs))


class Finalists:
    """Requests examinations and applies their reports. Its memory can be rebuilt from the archive."""

    def __init__(self, store: Store, dispatcher: Dispatcher, events: EventBus) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._events = events
        self._waiting: dict[str, set[str]] = {}
        self._look_at: dict[str, float] = {}
        self._begun = datetime.now(UTC)

    async def complete(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if the best elites of a search have been examined; request the missing examinations once."""
        if not self.awaits(search.id):
            for elite in await _finalists(self._store, search):
                await self._require(await self._case(search, operator, elite))
        return not self.awaits(search.id)

    async def examine_leaders(self, search: SearchRecord, operator: Operator) -> None:
        """Request the examination of a running search's elite that leads for long enough, one at a time.

        Such an elite is among the best of its device now, and has held its cell for `LEADS_S` and for `LEADS_SHARE` of
        the search's running time. Elites only get better, so it has been among the best all that time. Time before this
        coordinator's start does not count: a search that is resumed has other work first.
        """
        if time.monotonic() < self._look_at.get(search.id, 0.0) or self.awaits(search.id):
            return
        self._look_at[search.id] = time.monotonic() + LOOK_S
        running_s = (await self._store.candidates.count(search.id)).running_ms / 1000
        since = datetime.now(UTC) - timedelta(seconds=max(LEADS_S, LEADS_SHARE * running_s))
        found = await _finalists(self._store, search)
        leaders = [elite for elite in found if max(elite.placed_at, self._begun) <= since]
        known = await self._store.reports.known(map(_job_of, leaders)) if leaders else frozenset()
        for elite in leaders:
            if _job_of(elite) not in known and await self._require(await self._case(search, operator, elite)):
                return

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
        self._look_at.pop(search, None)

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
            before = Bundle.model_validate_json((await self._store.bundles.get(case.bundle)).document)
            reason = other_toolchain(before, bundle)
            bundle, outcome = None, Outcome.WORKER_LOST if reason else Outcome.NONDETERMINISTIC
            reason = reason or ANOTHER
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
        self._waiting.get(case.search.id, set()).discard(case.final_job())
        stamp = stamp_of(report)
        self._events.publish(
            EliteExamined(
                search=case.search.id,
                device=case.device.name,
                candidate=case.candidate.id,
                standing=stamp.standing,
                reason=stamp.reason,
            )
        )
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
        reports += [report for report in map(Report.model_validate_json, mine) if report.job == case.final_job()]
        if not reports:
            return False
        about_it = {"job": case.final_job(), "search": case.search.id, "candidate": case.candidate.id}
        await self._take(case, reports[0].model_copy(update={**about_it, "variant": case.variant}))
        return True

    async def _require(self, case: EvaluationCase) -> bool:
        """Request the examination of a finalist, unless its result is known. Returns True if it is pending now."""
        if await self._is_known(case):
            return False
        queued = await self._dispatcher.outstanding(case.search.id)
        if not any(case.final_job(purpose) in queued for purpose in (FINAL, FINAL_TRACE, NEAR_TRACE)):
            far, _ = _far(case)
            await self._dispatcher.submit(final_trace_job(case, [*_drawn(case), *([far] if far else [])]))
        self._waiting.setdefault(case.search.id, set()).add(case.final_job())
        return True


async def _finalists(store: Store, search: SearchRecord) -> list[EliteRecord]:
    """Read the best elites on each device that can examine them; a recording holds only the shapes it measured."""
    devices = [device for device in search.devices if Device.parse(device).kind != "recorded"]
    tops = [await store.elites.top(search.id, device, search.axes_version, FINALISTS) for device in devices]
    return [elite for top in tops for elite in top]


def _job_of(elite: EliteRecord) -> str:
    return final_id(elite.candidate, elite.variant, elite.device)


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
        job=case.final_job(),
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
