"""Reports of hosts before they count: whose word they are, whether it holds, and what is to be repeated.

A host is a worker that joined with a token. Until an admin trusts it, what it measures has trust C, which holds no
cell, and what it traces is in doubt. Some of its jobs are ones whose answer a trusted worker has given already; it
cannot tell them from others, and where it says otherwise that is counted.
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
from service.evaluation.jobs import EvaluationCase, incumbent_of, is_final, measure_job, retrace_id, trace_job
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
"""Share of an untrusted host's jobs whose answer is known: a lie in one of four jobs is found out three times within
some 200 jobs, minutes of a host's work, and honest hosts spend six percent on it."""
ANSWERS_KEPT = 256
"""Answers of trusted workers to plant again: enough that a host seldom sees one twice."""
RECALL_S = 30.0
"""Seconds between two looks at the archive for something to plant, while there is nothing."""
RECALLED = 16
"""Most open searches whose seeds are looked at."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _TrustedJob:
    """A job that a trusted worker answered, and what it said; `device` is None if it was to trace."""

    search: str
    candidate: str
    variant: int
    bundle: str
    device: Device | None
    known: TrustedResult

    @classmethod
    def of(cls, report: AnyReport, known: TrustedResult) -> "_TrustedJob | None":
        """What to remember of a report; None if its job is none to be had again."""
        if isinstance(report, Report):
            of = (report.search, report.candidate, report.variant, report.bundle, report.device, known)
            return cls(*of) if incumbent_of(report) is None else None
        if report.candidate is None or report.job == retrace_id(report.candidate):
            return None
        return cls(report.search, report.candidate, 0, "", None, known)


class SpotChecks:
    """Knows which hosts are trusted, and looks at what comes from those that are not."""

    def __init__(self, store: Store, events: EventBus) -> None:
        self._store = store
        self._events = events
        self._reference_seed = ReferenceSeed(store)
        self._remote_workers: dict[str, RemoteWorker] = {}
        self._answers: dict[bool, deque[_TrustedJob]] = {right: deque(maxlen=ANSWERS_KEPT) for right in (True, False)}
        self._tallies: dict[str, Counter[str]] = {}
        self._recall_at = 0.0
        self._random = random.Random(secrets.randbits(64))

    def know(self, hosts: Sequence[RemoteWorker]) -> None:
        """Learn how the hosts stand that may work now."""
        self._remote_workers = {host.id: host for host in hosts}

    def take_tallies(self) -> dict[str, RemoteWorkerCounts]:
        """What is to be added to the counts of hosts since this was asked the last time."""
        taken, self._tallies = self._tallies, {}
        return {host: RemoteWorkerCounts(**counts) for host, counts in taken.items()}

    def count(self, host: str, **counts: int) -> None:
        """Add to a host's counts; the names are those of `RemoteWorkerCounts`."""
        self._tallies.setdefault(host, Counter()).update(counts)

    async def check(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """The reports that may be applied, as far as they may count.

        Raises:
            Unavailable: If the database does not answer.
        """
        checked = []
        for delivery in deliveries:
            if not is_host(delivery.report.worker):
                if self._remote_workers:
                    await self._learn(delivery.report)
                checked.append(delivery)
            elif (allowed := await self._admit(delivery)) is not None:
                checked.append(allowed)
        return checked

    async def choose(self, host: RemoteWorker) -> tuple[TraceJob | MeasureJob, str] | None:
        """Now and then, for an untrusted host, a job whose answer is known, and what is known of it (JSON)."""
        if host.trusted or self._random.random() >= SPOT_CHECK_SHARE:
            return None
        try:
            kinds = self._kinds(host) or await self._recall(host)
            if not kinds:
                return None
            answered = self._random.choice(self._random.choice(kinds))
            job = await self._job_of(answered)
        except ArchiveError as error:
            log.info("nothing to plant", host=host.id, reason=str(error))
            return None
        fits = not isinstance(job, TraceJob) or JobQueue.of(job).place == host.target
        return (job, answered.known.model_dump_json()) if fits else None

    def _kinds(self, host: RemoteWorker) -> list[list[_TrustedJob]]:
        """Right answers and wrong ones that a host could have been asked for, as far as there are any."""
        return [found for right in (True, False) if (found := self._fitting(host, right))]

    async def _recall(self, host: RemoteWorker) -> list[list[_TrustedJob]]:
        """Remember what trusted workers said of the seeds of open searches: after a start nothing else is known yet."""
        if time.monotonic() < self._recall_at:
            return []
        self._recall_at = time.monotonic() + RECALL_S
        for mark in (await self._store.search_leases.marks())[:RECALLED]:
            for seed in (await self._store.candidates.seeds(mark.id))[:1]:
                for answered in await self._said_of(seed):
                    self._answers[answered.known.correct].append(answered)
        return self._kinds(host)

    async def _said_of(self, seed: CandidateRecord) -> list[_TrustedJob]:
        """What was found out about a first seed, which only trusted workers trace and judge."""
        reports = [report for report in await reports_on(self._store, seed.id) if not is_unverified(report)]
        said = ((report, TrustedResult.of(report)) for report in reports)
        found = [answered for report, known in said if known and (answered := _TrustedJob.of(report, known))]
        if found:
            bundles = tuple(variant.bundle or "" for variant in await self._store.candidates.variants(seed.id))
            known = TrustedResult(worker=found[0].known.worker, kind="trace", correct=True, bundles=bundles)
            found.append(_TrustedJob(seed.search, seed.id, 0, "", None, known))
        return found

    def _fitting(self, host: RemoteWorker, right: bool) -> list[_TrustedJob]:
        """Right or wrong answers that a host could have been asked for."""
        mine = {None if host.target is None else "trace", host.device} - {None}
        answers = self._answers[right]
        return [found for found in answers if (found.device.name if found.device else "trace") in mine]

    async def _admit(self, delivery: Delivery) -> Delivery | None:
        """A host's report as it may count; None if it must not be applied."""
        report = delivery.report
        host = self._remote_workers.get(report.worker) or await self._find(report.worker)
        if host is None:
            return None
        self.count(host.id, done=1)
        if delivery.known:
            self._compare(host.id, report, TrustedResult.model_validate_json(delivery.known))
            return None
        if host.trusted:
            await self._learn(report)
            return delivery
        if isinstance(report, TraceReport):
            return delivery if await self._mark_unverified(report, host.id) else None
        if report.kind != "measure" or incumbent_of(report) is not None:
            self.count(host.id, refused=1)
            return None
        return Delivery(report.model_copy(update=_untrusted(report)), delivery.receipt)

    async def _mark_unverified(self, report: TraceReport, host: str) -> bool:
        """Keep in mind that a trace is an untrusted host's; False if it must not be applied at all."""
        if report.candidate is None or report.job == retrace_id(report.candidate) or is_final(report.job):
            self.count(host, refused=1)
            return False
        try:
            await self._store.remote_workers.mark_unverified(report.candidate, host)
        except RecordConflict:
            return False
        return True

    async def _learn(self, report: AnyReport) -> None:
        """Remember a trusted worker's answer, and hold what a host said before against it."""
        known = TrustedResult.of(report)
        if known is None:
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
            told = known.model_copy(
                update={"worker": unverified.host, "bundles": tuple(variant.bundle or "" for variant in variants)}
            )
            self._note(unverified.host, told.differs(known), report.job)

    async def _check_repeat(self, report: Report, known: TrustedResult) -> None:
        """Hold a confirm, or a measurement repeated, against the host's word that led to it."""
        for told in await reports_on(self._store, report.candidate):
            of_it = (told.variant, told.device) == (report.variant, report.device) and incumbent_of(told) is None
            if of_it and is_unverified(told) and is_host(told.worker) and (said := TrustedResult.of(told)) is not None:
                self._note(told.worker, said.differs(known), report.job)

    def _compare(self, host: str, report: AnyReport, known: TrustedResult) -> None:
        said = TrustedResult.of(report)
        if said is not None:
            self._note(host, said.differs(known), report.job)

    def _note(self, host: str, difference: str, job: str) -> None:
        self.count(host, checked=1, disagreed=int(bool(difference)))
        if difference:
            log.warning("a host disagrees with a trusted worker", host=host, job=job, difference=difference)
            self._events.publish(WorkerChanged(worker=host, state="disagreed", reason=difference))

    async def _find(self, worker: str) -> RemoteWorker | None:
        try:
            host = await self._store.remote_workers.get(worker)
        except RecordNotFound:
            return None
        return host if host.state.works else None

    async def _job_of(self, answered: _TrustedJob) -> TraceJob | MeasureJob:
        """The job that was answered, made again."""
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
    """What a report's label becomes where nobody vouches for its host, whatever that says of itself."""
    if report.grounds is None:
        return {"trust": Trust.D if report.trust is Trust.D else Trust.C}
    grounds = report.grounds.model_copy(update={"vouched": False})
    return {"trust": label(grounds)[0], "grounds": grounds}
