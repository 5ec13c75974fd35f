"""Unit of work: everything that reports lead to, written in one transaction before jobs and events are sent.

Code that applies reports reads and writes here instead of in the archive. `commit` writes everything, then sends the
jobs that follow and publishes the events. A kill in between loses jobs, which the next sweep sends again, and events,
which repeat only what the archive says.
"""

from collections.abc import Iterable, Sequence

import structlog

from archive.records import (
    WON,
    CandidateRecord,
    CandidateVerdict,
    Offer,
    Placement,
    ReferenceChange,
    Retrace,
    TraceOutcome,
    UnverifiedTrace,
    VariantRecord,
)
from archive.store import ReportKey, Store
from archive.store.lineage import Readings
from service.evaluation.jobs import FINAL, EvaluationCase
from service.evaluation.reports import device_ms, record
from service.events import CandidateJudged, ElitePromoted, EventBus
from workers.protocol import AnyReport, Bundle, Job, Report, TraceReport
from workers.queue import Dispatcher

log = structlog.get_logger(__name__)


class UnitOfWork:
    """Pending writes, jobs and events of one coordinator. All of them are dropped if a commit fails.

    `events` is the bus, for what is published at once.
    """

    def __init__(self, store: Store, dispatcher: Dispatcher, events: EventBus) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self.events = events
        self._batch = store.batch()
        self._reports: dict[str, list[Report]] = {}
        self._bundles: dict[str, Bundle] = {}
        self._identities: dict[str, dict[int, str]] = {}
        self._jobs: list[tuple[Job, bool]] = []
        self._judged: dict[str, CandidateJudged] = {}

    async def expect(self, reports: Sequence[AnyReport]) -> None:
        """Prefetch in one query all records that applying these reports needs.

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
        """Return the identities of the bundles in a report, by index of the variant."""
        if report.job not in self._identities:
            found = {variant.index: variant.bundle for variant in report.variants}
            self._identities[report.job] = {index: bundle.identity for index, bundle in found.items() if bundle}
        return self._identities[report.job]

    async def candidate(self, id: str) -> CandidateRecord:
        """Read one candidate.

        Raises:
            RecordNotFound: If there is none.
        """
        return await self._batch.candidate(id)

    async def variants(self, candidate: str) -> list[VariantRecord]:
        """Read a candidate's variants by index; none before its trace."""
        return await self._batch.variants(candidate)

    async def unverified_trace(self, candidate: str) -> UnverifiedTrace | None:
        """Read the mark of a candidate's unverified trace; None if a trusted worker traced it."""
        return await self._batch.unverified_trace(candidate)

    async def retrace(self, trace_key: str) -> Retrace | None:
        """Read the result of a second trace; None if there was none."""
        return await self._batch.retrace(trace_key)

    async def keep_retrace(self, trace_key: str, candidate: str, bundles: Sequence[str | None]) -> None:
        """Store the bundles of a second trace, by index of the variant. The first stored result stays."""
        await self._batch.keep_retrace(trace_key, candidate, bundles)

    async def readings(self, bundle: str) -> Readings:
        """Read the readings of one bundle, one mapping per plan.

        Raises:
            RecordNotFound: If no bundle has that identity.
        """
        return await self._batch.readings(bundle)

    async def reports(self, candidate: str) -> list[Report]:
        """Read a candidate's reports, oldest first, without finalist examinations, as `reports_on` does."""
        if candidate not in self._reports:
            documents = await self._batch.reports(candidate)
            reports = [Report.model_validate_json(document) for document in documents.values()]
            self._reports[candidate] = [report for report in reports if report.kind != FINAL]
        return self._reports[candidate]

    async def measures(self, about: ReportKey) -> list[Report]:
        """Read the first `measure` reports on equal bundles, oldest first, except outcomes in `INCONCLUSIVE`."""
        return [Report.model_validate_json(document) for document in await self._batch.measures(about)]

    async def bundle(self, identity: str) -> Bundle:
        """Read a traced bundle.

        Raises:
            RecordNotFound: If no bundle has that identity.
        """
        if identity not in self._bundles:
            self._bundles[identity] = Bundle.model_validate_json((await self._batch.bundle(identity)).document)
        return self._bundles[identity]

    async def save_trace(self, candidate: str, traced: TraceOutcome, bundles: Iterable[tuple[str, Bundle]]) -> None:
        """Store the result of a trace, with its bundles by identity."""
        await self._batch.save_trace(candidate, traced)
        self._bundles.update(bundles)

    async def save_report(self, case: EvaluationCase, report: Report) -> None:
        """Store a report on a case, unless its job has one."""
        known = await self.reports(case.candidate.id)
        if all(other.job != report.job for other in known):
            await self._batch.save_report(record(case, report), device_ms(report))
            known.append(report)

    def judge(
        self,
        candidate: CandidateRecord,
        verdict: CandidateVerdict,
        *,
        revises: bool = False,
        reference: ReferenceChange | None = None,
    ) -> None:
        """Give a candidate its verdict and publish it, unless it has one; `revises` replaces one that is `correct`.

        A first verdict brings `reference` with it, another reference seed for the search.
        """
        self._batch.judge(verdict, revises=revises, reference=reference)
        self._judged.setdefault(
            candidate.id,
            CandidateJudged(
                search=candidate.search,
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
        """Return the objective of a cell's holder after the next commit; None if the cell is empty.

        Only for devices that need no confirm.
        """
        return await self._batch.objective(search, device, axes_version, cell)

    def offer(self, offer: Offer) -> None:
        """Offer a challenger that needs no confirm, and publish it if it wins."""
        self._batch.offer(offer)

    async def promote(self, offer: Offer, margin: float) -> Placement:
        """Commit, then offer a confirmed challenger its cell, as `ProvisionalStore.promote` does."""
        await self.commit()
        placement = await self._store.provisional.promote(offer, margin)
        self._publish(offer, placement)
        return placement

    async def hold(self, offer: Offer, margin: float) -> Placement:
        """Commit, then offer a challenger its cell provisionally."""
        await self.commit()
        return await self._store.provisional.hold(offer, margin)

    async def give_back(self, loser: Offer, placement: Placement, margin: float) -> bool:
        """Commit, then take a cell from its provisional holder, as `ProvisionalStore.give_back` does."""
        await self.commit()
        return await self._store.provisional.give_back(loser, placement, margin)

    def send(self, job: Job, *, reserved: bool = False) -> None:
        """Send a job with the next commit; only to trusted workers if `reserved`."""
        self._jobs.append((job, reserved))

    async def commit(self) -> frozenset[str]:
        """Write everything, then send jobs and events. Returns the candidates that got their first verdict.

        Raises:
            ArchiveError: If the archive refuses something or does not answer; everything is dropped.
            QueueUnavailable: If Redis does not answer; everything is written, but not sent.
        """
        jobs, judged = self._jobs, self._judged
        self._forget()
        settled = await self._batch.flush()
        for offer, placement in settled.placements:
            self._publish(offer, placement)
        for candidate, event in judged.items():
            if candidate in settled.evaluated:
                self.events.publish(event)
        if jobs:
            await self._dispatcher.submit_all(jobs)
        for job, _ in jobs:
            log.debug("job sent", kind=job.kind, job=job.id, search=job.search, candidate=job.candidate)
        return settled.evaluated

    def drop(self) -> None:
        """Drop everything that was not committed."""
        self._forget()
        self._batch.drop()

    def _forget(self) -> None:
        self._jobs, self._judged = [], {}
        self._reports, self._bundles, self._identities = {}, {}, {}

    def _publish(self, offer: Offer, placement: Placement) -> None:
        if placement in WON:
            self.events.publish(
                ElitePromoted(
                    search=offer.search,
                    device=offer.device,
                    cell=offer.cell,
                    candidate=offer.candidate,
                    objective=offer.objective,
                    placement=placement.value,
                )
            )
