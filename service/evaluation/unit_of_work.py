"""What reports lead to, written down before anybody is told.

Whoever applies reports reads and writes here instead of in the archive: `commit` writes everything in one transaction,
then sends the jobs that follow from it and tells watchers. A kill in between loses jobs, which the next sweep sends
again, and events, which say only what the archive says.
"""

from collections.abc import Iterable, Sequence

import structlog

from archive.records import (
    CandidateRecord,
    CandidateVerdict,
    Offer,
    Placement,
    Retrace,
    TraceOutcome,
    UnverifiedTrace,
    VariantRecord,
)
from archive.store import ReportKey, Store
from archive.store.lineage import Readings
from service.evaluation.jobs import FINAL, EvaluationCase
from service.evaluation.reports import judging_ms, record
from service.events import CandidateJudged, ElitePromoted, EventBus
from workers.protocol import AnyReport, Bundle, Job, Report, TraceReport
from workers.queue import Dispatcher

log = structlog.get_logger(__name__)


class UnitOfWork:
    """The writings of one coordinator. What waits in it is dropped where a commit fails."""

    def __init__(self, store: Store, dispatcher: Dispatcher, events: EventBus) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._events = events
        self._batch = store.batch()
        self._reports: dict[str, list[Report]] = {}
        self._bundles: dict[str, Bundle] = {}
        self._identities: dict[str, dict[int, str]] = {}
        self._jobs: list[tuple[Job, bool]] = []
        self._judged: dict[str, CandidateJudged] = {}

    async def expect(self, reports: Sequence[AnyReport]) -> None:
        """Read at once what applying these will ask for.

        Raises:
            Unavailable: If the database does not answer.
        """
        candidates = [report.candidate for report in reports if report.candidate is not None]
        bundles = [report.bundle for report in reports if isinstance(report, Report)]
        for report in reports:
            if isinstance(report, TraceReport):
                bundles += self.identities(report).values()
        await self._batch.look_up(candidates, bundles)

    def identities(self, report: TraceReport) -> dict[int, str]:
        """Identities of the bundles in a report, by the index of the variant."""
        if report.job not in self._identities:
            found = {variant.index: variant.bundle for variant in report.variants}
            self._identities[report.job] = {index: bundle.identity for index, bundle in found.items() if bundle}
        return self._identities[report.job]

    async def candidate(self, id: str) -> CandidateRecord:
        """One candidate.

        Raises:
            NotFound: If there is none.
        """
        return await self._batch.candidate(id)

    async def variants(self, candidate: str) -> list[VariantRecord]:
        """A candidate's variants by index; none before its trace."""
        return await self._batch.variants(candidate)

    async def unverified_trace(self, candidate: str) -> UnverifiedTrace | None:
        """Whose word a candidate's trace is, if it is an untrusted host's."""
        return await self._batch.unverified_trace(candidate)

    async def retrace(self, trace_key: str) -> Retrace | None:
        """What a second trace gave, if there was one."""
        return await self._batch.retrace(trace_key)

    async def keep_retrace(self, trace_key: str, candidate: str, bundles: Sequence[str | None]) -> None:
        """Keep what a second trace gave, by index of the variant. The first one counts, and stays."""
        await self._batch.keep_retrace(trace_key, candidate, bundles)

    async def readings(self, bundle: str) -> Readings:
        """Readings of one bundle, one mapping a plan.

        Raises:
            NotFound: If none has that identity.
        """
        return await self._batch.readings(bundle)

    async def reports(self, candidate: str) -> list[Report]:
        """What a candidate is judged by, oldest first; as `reports_on`."""
        if candidate not in self._reports:
            documents = await self._batch.reports(candidate)
            reports = [Report.model_validate_json(document) for document in documents.values()]
            self._reports[candidate] = [report for report in reports if report.kind != FINAL]
        return self._reports[candidate]

    async def measures(self, about: ReportKey) -> list[Report]:
        """The first `measure` reports on equal bundles, oldest first, but for `NO_WORD`."""
        return [Report.model_validate_json(document) for document in await self._batch.measures(about)]

    async def bundle(self, identity: str) -> Bundle:
        """A bundle that was traced.

        Raises:
            NotFound: If none has that identity.
        """
        if identity not in self._bundles:
            self._bundles[identity] = Bundle.model_validate_json((await self._batch.bundle(identity)).document)
        return self._bundles[identity]

    async def save_trace(self, candidate: str, traced: TraceOutcome, bundles: Iterable[tuple[str, Bundle]]) -> None:
        """Keep what came out of a trace, with its bundles by identity."""
        await self._batch.save_trace(candidate, traced)
        self._bundles.update(bundles)

    async def save_report(self, case: EvaluationCase, report: Report) -> None:
        """Keep a report on a case, unless its job has one."""
        known = await self.reports(case.candidate.id)
        if all(other.job != report.job for other in known):
            await self._batch.save_report(record(case, report), judging_ms(report))
            known.append(report)

    def judge(self, search: str, candidate: CandidateRecord, verdict: CandidateVerdict) -> None:
        """Give a candidate its verdict, and tell of it, unless it has one."""
        self._batch.judge(verdict)
        self._judged.setdefault(
            candidate.id,
            CandidateJudged(
                search=search,
                candidate=candidate.id,
                ordinal=candidate.ordinal,
                emitter=candidate.emitter,
                outcome=verdict.outcome,
                reason=verdict.reason,
                objective=verdict.objective,
                objectives=verdict.objectives,
            ),
        )

    async def objective(self, search: str, device: str, axes_version: int, cell: int) -> float | None:
        """Objective of who holds a cell, or will after the commit, where no confirm is needed; None if nobody does."""
        return await self._batch.objective(search, device, axes_version, cell)

    def offer(self, offer: Offer) -> None:
        """Let a challenger that needs no confirm try for its cell, and tell of it if it wins."""
        self._batch.offer(offer)

    async def decide(self, offer: Offer) -> Placement:
        """Let a challenger try for its cell at once, after everything that waits."""
        await self.commit()
        placement = await self._store.elites.offer(offer)
        self._tell(offer, placement)
        return placement

    def send(self, job: Job, *, reserved: bool = False) -> None:
        """Queue a job as soon as what it is about is written; only for trusted workers if `reserved`."""
        self._jobs.append((job, reserved))

    async def commit(self) -> frozenset[str]:
        """Write, send, tell; the candidates that got their first verdict.

        Raises:
            ArchiveError: If the archive takes something of it not, or does not answer; all of it is dropped.
            QueueUnavailable: If Redis does not answer. It is written then, but not sent.
        """
        jobs, judged = self._jobs, self._judged
        self._forget()
        settled = await self._batch.flush()
        for offer, placement in settled.placements:
            self._tell(offer, placement)
        for candidate, event in judged.items():
            if candidate in settled.judged:
                self._events.publish(event)
        if jobs:
            await self._dispatcher.submit_all(jobs)
        for job, _ in jobs:
            log.debug("job sent", kind=job.kind, job=job.id, search=job.search, candidate=job.candidate)
        return settled.judged

    def drop(self) -> None:
        """Forget what waits."""
        self._forget()
        self._batch.drop()

    def _forget(self) -> None:
        self._jobs, self._judged = [], {}
        self._reports, self._bundles, self._identities = {}, {}, {}

    def _tell(self, offer: Offer, placement: Placement) -> None:
        if placement in (Placement.NEW, Placement.IMPROVED):
            self._events.publish(
                ElitePromoted(
                    search=offer.search,
                    device=offer.device,
                    cell=offer.cell,
                    candidate=offer.candidate,
                    objective=offer.objective,
                    placement=placement.value,
                )
            )
