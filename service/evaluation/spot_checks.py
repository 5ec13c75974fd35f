"""Spot checks of remote workers: which of their reports may count, and how often they disagree with trusted ones.

A remote worker joined with a token. Until an admin trusts it, its measurements have trust C, which wins no
cell, and its traces are unverified. Some of its jobs have a known answer, given by a trusted worker. It cannot
distinguish them from others; disagreements are counted.
"""

import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from archive.errors import ArchiveError, RecordConflict, RecordNotFound
from archive.records import CandidateRecord, RemoteWorker, RemoteWorkerCounts
from archive.store import Store
from service.evaluation.comparison import TrustedResult
from service.evaluation.jobs import EvaluationCase, incumbent_of, is_check, is_final, measure_job, retrace_id, trace_job
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import is_unverified, reports_on
from service.events import EventBus, WorkerChanged
from workers.protocol import (
    AnyReport,
    Bundle,
    Device,
    MeasureJob,
    Operator,
    Report,
    TraceJob,
    TraceReport,
    Trust,
    label,
)
from workers.queue import Delivery, JobQueue, is_host

SPOT_CHECK_SHARE = 1 / 16
"""Share of an untrusted worker's jobs that are spot checks. A worker that lies in one of four jobs is caught three
times within some 200 jobs, which takes minutes; honest workers spend six percent on it."""
ANSWERS_KEPT = 256
"""Maximum number of known answers in memory: enough that a worker seldom gets one twice."""
RECALL_S = 30.0
"""Seconds between two reads of the archive for known answers, while there are none."""
RECALLED = 16
"""Maximum number of open searches whose seeds are read."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _TrustedJob:
    """Job that a trusted worker answered, and its result; `device` is None for a trace."""

    search: str
    candidate: str
    variant: int
    bundle: str
    device: Device | None
    known: TrustedResult

    @classmethod
    def of(cls, report: AnyReport, known: TrustedResult) -> "_TrustedJob | None":
        """Make one from a report; None if its job cannot be made again."""
        if isinstance(report, Report):
            if incumbent_of(report) is not None:
                return None
            return cls(report.search, report.candidate, report.variant, report.bundle, report.device, known)
        if report.candidate is None or report.job == retrace_id(report.candidate):
            return None
        return cls(report.search, report.candidate, 0, "", None, known)


class SpotChecks:
    """Filters the reports of remote workers, gives untrusted ones spot checks, and counts the results."""

    def __init__(self, store: Store, events: EventBus) -> None:
        self._store = store
        self._events = events
        self._reference_seed = ReferenceSeed(store)
        self._remote_workers: dict[str, RemoteWorker] = {}
        self._answers: dict[bool, deque[_TrustedJob]] = {right: deque(maxlen=ANSWERS_KEPT) for right in (True, False)}
        self._tallies: dict[str, Counter[str]] = {}
        self._products: dict[str, str] = {}
        self._warned: set[str] = set()
        self._recall_at = 0.0
        self._random = random.Random(secrets.randbits(64))

    def know(self, workers: Sequence[RemoteWorker]) -> None:
        """Set the remote workers that may work now."""
        self._remote_workers = {worker.id: worker for worker in workers}

    def take_tallies(self) -> dict[str, RemoteWorkerCounts]:
        """Return the counts of remote workers since the last call, and reset them."""
        taken, self._tallies = self._tallies, {}
        return {worker: RemoteWorkerCounts(**counts) for worker, counts in taken.items()}

    def count(self, worker: str, **counts: int) -> None:
        """Add to a remote worker's counts; the names are those of `RemoteWorkerCounts`."""
        self._tallies.setdefault(worker, Counter()).update(counts)

    async def check(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Return the reports that may be applied, with the trust that they deserve.

        Raises:
            Unavailable: If the database does not answer.
        """
        checked = []
        for delivery in deliveries:
            if not is_host(delivery.report.worker):
                if self._remote_workers:
                    await self._learn(delivery.report)
                self._compare_product(delivery.report)
                checked.append(delivery)
            elif (allowed := await self._admit(delivery)) is not None:
                checked.append(allowed)
        return checked

    async def choose(self, worker: RemoteWorker) -> tuple[TraceJob | MeasureJob, str] | None:
        """Choose, now and then, a spot check for an untrusted worker: a job and its known result (JSON)."""
        if worker.trusted or self._random.random() >= SPOT_CHECK_SHARE:
            return None
        try:
            kinds = self._kinds(worker) or await self._recall(worker)
            if not kinds:
                return None
            answered = self._random.choice(self._random.choice(kinds))
            job = await self._job_of(answered)
        except ArchiveError as error:
            log.info("no spot check possible", worker=worker.id, reason=str(error))
            return None
        fits = not isinstance(job, TraceJob) or JobQueue.of(job).place == worker.target
        return (job, answered.known.model_dump_json()) if fits else None

    def _kinds(self, worker: RemoteWorker) -> list[list[_TrustedJob]]:
        """Return the correct and the failed answers for jobs that this worker could get, without empty lists."""
        return [found for right in (True, False) if (found := self._fitting(worker, right))]

    async def _recall(self, worker: RemoteWorker) -> list[list[_TrustedJob]]:
        """Read trusted answers on the seeds of open searches: after a start nothing else is known yet."""
        if time.monotonic() < self._recall_at:
            return []
        self._recall_at = time.monotonic() + RECALL_S
        for mark in (await self._store.search_leases.fingerprints())[:RECALLED]:
            for seed in await self._store.candidates.seeds(mark.id):
                for answered in await self._known_answers(seed):
                    self._answers[answered.known.correct].append(answered)
        return self._kinds(worker)

    async def _known_answers(self, seed: CandidateRecord) -> list[_TrustedJob]:
        """Return the known answers on a seed by trusted workers; without a report by one, that is none."""
        reports = [report for report in await reports_on(self._store, seed.id) if not is_unverified(report)]
        results = ((report, TrustedResult.of(report)) for report in reports)
        found = [answered for report, known in results if known and (answered := _TrustedJob.of(report, known))]
        if found and await self._store.remote_workers.unverified_trace(seed.id) is None:
            bundles = tuple(variant.bundle or "" for variant in await self._store.candidates.variants(seed.id))
            known = TrustedResult(worker=found[0].known.worker, kind="trace", correct=True, bundles=bundles)
            found.append(_TrustedJob(seed.search, seed.id, 0, "", None, known))
        return found

    def _fitting(self, worker: RemoteWorker, right: bool) -> list[_TrustedJob]:
        """Return the correct or the failed answers for jobs that this worker could get."""
        mine = {None if worker.target is None else "trace", worker.device} - {None}
        answers = self._answers[right]
        return [found for found in answers if (found.device.name if found.device else "trace") in mine]

    async def _admit(self, delivery: Delivery) -> Delivery | None:
        """Return a remote worker's report with the trust that it deserves; None if it must not be applied."""
        report = delivery.report
        worker = self._remote_workers.get(report.worker) or await self._find(report.worker)
        if worker is None:
            return None
        self.count(worker.id, done=1)
        if delivery.known:
            self._compare(worker.id, report, TrustedResult.model_validate_json(delivery.known))
            return None
        if worker.trusted:
            await self._learn(report)
            self._compare_product(report)
            return delivery
        if isinstance(report, TraceReport):
            return delivery if await self._mark_unverified(report, worker.id) else None
        if report.kind != "measure" or incumbent_of(report) is not None:
            self.count(worker.id, refused=1)
            return None
        return Delivery(report.model_copy(update=_untrusted(report)), delivery.receipt)

    def _compare_product(self, report: AnyReport) -> None:
        """Warn about a trusted worker whose card is not the product that the first one of its class was.

        Its figures count, since candidate and rival ran on the same card; a person has to separate the two.
        """
        if not isinstance(report, Report) or report.card is None:
            return
        device, product = report.device.name, report.card.product
        known = self._products.setdefault(device, product)
        if known != product and report.worker not in self._warned:
            self._warned.add(report.worker)
            reason = f"two products are called {device}: its card has {product}, the first one {known}"
            log.warning("cards of one class differ", worker=report.worker, reason=reason)
            self._events.publish(WorkerChanged(worker=report.worker, state="disagreed", reason=reason))

    async def _mark_unverified(self, report: TraceReport, worker: str) -> bool:
        """Mark a trace as unverified. Returns False if it must not be applied at all."""
        if report.candidate is None or report.job == retrace_id(report.candidate) or is_final(report.job):
            self.count(worker, refused=1)
            return False
        try:
            await self._store.remote_workers.mark_unverified(report.candidate, worker)
        except RecordConflict:
            return False
        return True

    async def _learn(self, report: AnyReport) -> None:
        """Remember a trusted worker's answer, and compare a remote worker's earlier report with it."""
        known = TrustedResult.of(report)
        if known is None or is_check(report.job):
            return
        if isinstance(report, TraceReport):
            await self._check_retrace(report, known)
        elif incumbent_of(report) is not None:
            await self._check_repeat(report, known)
        answered = _TrustedJob.of(report, known)
        if answered is not None:
            self._answers[known.correct].append(answered)

    async def _check_retrace(self, report: TraceReport, known: TrustedResult) -> None:
        if report.candidate is None or report.job != retrace_id(report.candidate):
            return
        unverified = await self._store.remote_workers.unverified_trace(report.candidate)
        if unverified is not None:
            variants = await self._store.candidates.variants(report.candidate)
            bundles = tuple(variant.bundle or "" for variant in variants)
            earlier = known.model_copy(update={"worker": unverified.host, "bundles": bundles})
            self._note(unverified.host, earlier.differs(known), report.job)

    async def _check_repeat(self, report: Report, known: TrustedResult) -> None:
        """Compare a confirm, or a repeated measurement, with the remote worker's report that led to it."""
        for earlier in await reports_on(self._store, report.candidate):
            of_it = (earlier.variant, earlier.device) == (report.variant, report.device)
            if of_it and incumbent_of(earlier) is None and is_unverified(earlier) and is_host(earlier.worker):
                result = TrustedResult.of(earlier)
                if result is not None:
                    self._note(earlier.worker, result.differs(known), report.job)

    def _compare(self, worker: str, report: AnyReport, known: TrustedResult) -> None:
        result = TrustedResult.of(report)
        if result is not None:
            self._note(worker, result.differs(known), report.job)

    def _note(self, worker: str, difference: str, job: str) -> None:
        self.count(worker, checked=1, disagreed=int(bool(difference)))
        if difference:
            log.warning("remote worker disagrees with a trusted worker", worker=worker, job=job, difference=difference)
            self._events.publish(WorkerChanged(worker=worker, state="disagreed", reason=difference))

    async def _find(self, worker: str) -> RemoteWorker | None:
        try:
            found = await self._store.remote_workers.get(worker)
        except RecordNotFound:
            return None
        return found if found.state.works else None

    async def _job_of(self, answered: _TrustedJob) -> TraceJob | MeasureJob:
        """Make the answered job again."""
        search = await self._store.searches.get(answered.search)
        operator = Operator.model_validate_json((await self._store.operators.get(search.operator)).document)
        candidate = await self._store.candidates.get(answered.candidate)
        if answered.device is None:
            return trace_job(search, operator, candidate)
        case = EvaluationCase(search, operator, candidate, answered.variant, answered.bundle, answered.device)
        bundle = Bundle.model_validate_json((await self._store.bundles.get(answered.bundle)).document)
        measures = answered.device.measures
        return measure_job(
            case, bundle, await self._reference_seed.pacer(search, case.device.name) if measures else None
        )


def _untrusted(report: Report) -> dict[str, object]:
    """Return the fields of a report that change if its worker is untrusted, regardless of its own claims."""
    if report.grounds is None:
        return {"trust": Trust.D if report.trust is Trust.D else Trust.C}
    grounds = report.grounds.model_copy(update={"vouched": False})
    return {"trust": label(grounds)[0], "grounds": grounds}
