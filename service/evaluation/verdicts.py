"""Application of reports to a search: traces become variants, correct variants are offered, candidates get verdicts.

Every method may run twice for the same report; the archive's writes are idempotent by job.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from archive.records import (
    CandidateState,
    CandidateVerdict,
    NewVariant,
    SearchRecord,
    SearchState,
    TraceOutcome,
)
from archive.store import Store
from service.evaluation.assignments import JobAssignments
from service.evaluation.baselines import SearchBaselines
from service.evaluation.confirmations import Confirmations
from service.evaluation.failures import SearchFailures
from service.evaluation.jobs import (
    BASELINES,
    EvaluationCase,
    JobSubject,
    incumbent_of,
    is_reference_seed,
    retrace_id,
)
from service.evaluation.promotion import Promotion
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import addressed, is_about_source, is_unverified, latest_reports
from service.evaluation.retraces import Retraces
from service.evaluation.traces import TraceRequests
from service.evaluation.unit_of_work import UnitOfWork
from service.events import EventBus
from workers.protocol import Bundle, Device, Operator, Outcome, Report, TracedVariant, TraceReport
from workers.queue import Dispatcher


class Verdicts:
    """Applies reports and requests the jobs that follow from them.

    Attributes:
        unit_of_work: Collects all writes; the caller commits it.
        reference_seed: Reference seeds that candidates are compared with.
        failures: Ends searches that cannot go on.
        baselines: Baselines of the searches.
    """

    def __init__(self, store: Store, dispatcher: Dispatcher, events: EventBus) -> None:
        self._store = store
        self.unit_of_work = UnitOfWork(store, dispatcher, events)
        self.reference_seed = ReferenceSeed(store)
        self.failures = SearchFailures(store, events, self.reference_seed)
        self._assignments = JobAssignments(store, self.unit_of_work, self.reference_seed)
        self.baselines = SearchBaselines(store, dispatcher, self.unit_of_work, self.reference_seed, self._assignments)
        self._traces = TraceRequests(store, self.unit_of_work)
        self._retraces = Retraces(store, self.unit_of_work)
        self._promotion = Promotion(store, self.unit_of_work, self.reference_seed, self._assignments, self._retraces)
        self._confirmations = Confirmations(store, dispatcher)

    async def trace(self, subject: JobSubject) -> None:
        """Request a candidate's trace, or reuse the trace of an equal candidate from the archive."""
        traced = await self._traces.obtain(subject)
        if traced is not None:
            await self._settle_trace(subject, traced, ())

    async def apply_trace(self, search: SearchRecord, operator: Operator, report: TraceReport) -> None:
        """Store a candidate's variants and request their evaluation."""
        candidate = await self.unit_of_work.candidate(report.candidate or "")
        subject = JobSubject(search, operator, candidate)
        if report.job == retrace_id(candidate.id):
            await self._settle_retrace(subject, report)
            return
        bundles = self.unit_of_work.identities(report)
        variants = tuple(_record(variant, bundles.get(variant.index)) for variant in report.variants)
        traced = TraceOutcome(
            outcome=None if report.outcome is Outcome.CORRECT else report.outcome.value,
            reason=report.reason,
            line=report.line,
            stages_s=report.stages_s,
            variants=variants,
            sure=await self.unit_of_work.unverified_trace(candidate.id) is None,
        )
        found = [(bundles[variant.index], variant.bundle) for variant in report.variants if variant.bundle]
        others = self._traces.claim(candidate)
        await self._settle_trace(subject, traced, found)
        if others:
            await self.unit_of_work.commit()  # The others read this trace from the archive.
        for other in others:
            await self.trace(other)

    async def apply_report(self, search: SearchRecord, operator: Operator, report: Report) -> None:
        """Give a verdict to every variant that waits for it."""
        candidate = await self.unit_of_work.candidate(report.candidate)
        asked = EvaluationCase(search, operator, candidate, report.variant, report.bundle, report.device)
        if incumbent_of(report) == BASELINES:
            self._assignments.claim(report, asked)
            await self.baselines.relate(asked, report, final=True)
            return
        for case in self._assignments.claim(report, asked):
            # A reference seed needs a trusted worker's report, which `_advance` requests.
            # A report about the source says nothing about other sources with an equal bundle: each needs its own job.
            is_others = is_about_source(report) and not case.same(asked)
            if not is_others and not (case.is_reference_seed and is_unverified(report)):
                await self._take(case, addressed(report, case, incumbent_of(report)), ())
            await self._advance(case, ())
        if report.kind == "confirm" and report.outcome not in (Outcome.CORRECT, Outcome.WORKER_LOST):
            await self._refute_twins(asked, report)

    async def confirm(self, search: SearchRecord, operator: Operator, *, last: bool = False) -> bool:
        """Request confirms of provisional holders that are worth them now. Returns True if none is due or pending.

        Args:
            search: The search.
            operator: Its operator.
            last: True once it has all its candidates.
        """
        due = await self._confirmations.look(search, self._awaits, last=last)
        for holder in due.holders:
            candidate, device = await self.unit_of_work.candidate(holder.candidate), Device.parse(holder.device)
            case = EvaluationCase(search, operator, candidate, holder.variant, holder.bundle, device)
            await self._promote(case, due.queued, leads=True)
        return due.settled

    async def order_verdicts(self, subject: JobSubject, queued: Collection[str]) -> None:
        """Request all jobs that a traced candidate still needs, except those that `queued` lists already.

        Without reference graphs there are none yet: `Admissions.apply` continues.
        """
        if not subject.search.graphs:  # The record in hand may be older than the graphs.
            subject = replace(subject, search=await self._store.searches.get(subject.search.id))
        if not subject.search.graphs:
            return
        known = await self.unit_of_work.reports(subject.candidate.id)
        for case in await self._cases(subject):
            mine = [report for report in known if (report.variant, report.device) == (case.variant, case.device)]
            if mine:
                await self._promote(case, queued)
        await self._advance(subject, queued)

    async def order_traced(self, search: SearchRecord, operator: Operator, queued: Collection[str]) -> None:
        """Request the jobs of all traced candidates of a search, which waited for what has just come."""
        for candidate in await self._store.candidates.unfinished(search.id):
            if candidate.state is CandidateState.TRACED:
                await self.order_verdicts(JobSubject(search, operator, candidate), queued)

    def forget(self, search: str) -> set[str]:
        """Forget a search's jobs in flight. Returns the other searches that waited for one of them."""
        self.baselines.forget(search)
        self._confirmations.forget(search)
        return self._traces.forget(search) | self._assignments.forget(search) | self._retraces.forget(search)

    async def _settle_trace(
        self, subject: JobSubject, traced: TraceOutcome, bundles: Iterable[tuple[str, Bundle]]
    ) -> None:
        await self.unit_of_work.save_trace(subject.candidate.id, traced, bundles)
        if any(variant.bundle for variant in traced.variants):
            await self.order_verdicts(subject, set())
            return
        first = next(iter(traced.variants), None)
        outcome = traced.outcome or (first.outcome if first else None) or Outcome.TRACE_CRASHED.value
        reason, line = (traced.reason, traced.line) if first is None else (first.reason, first.line)
        await self._judge(subject, CandidateVerdict(subject.candidate.id, outcome, reason or traced.reason, line, None))

    async def _take(self, case: EvaluationCase, report: Report, queued: Collection[str]) -> None:
        """Store a report, with the verdict that a confirm revises, and take its variant as far as it goes."""
        await self.unit_of_work.save_report(case, report)
        if report.kind == "confirm" and not case.is_reference_seed:
            candidate = await self.unit_of_work.candidate(case.candidate.id)
            if candidate.state is CandidateState.JUDGED:
                # A wrong kernel would stay `correct` if its second trace, which may be pending, were lost.
                reports = await self.unit_of_work.reports(candidate.id)
                await self._conclude(replace(case, candidate=candidate), latest_reports(reports), queued)
        if case.is_reference_seed:
            await self.unit_of_work.commit()  # Other candidates read the reference seed's report from the archive.
        if case.device.measures:
            await self.baselines.relate(case, report)
        await self._promote(case, queued)

    async def _refute_twins(self, case: EvaluationCase, wrong: Report) -> None:
        """Give the verdict of a confirm to all measured candidates of the search with an equal bundle.

        Those that still wait for their turn find it then: stored before their measurement, it would not be the latest.
        """
        await self.unit_of_work.commit()
        for variant in await self._store.candidates.with_bundle(case.search.id, case.bundle):
            if variant.candidate != case.candidate.id and await self.unit_of_work.reports(variant.candidate):
                candidate = await self.unit_of_work.candidate(variant.candidate)
                twin = replace(case, candidate=candidate, variant=variant.index)
                await self._take(twin, addressed(wrong, twin, incumbent_of(wrong)), ())
                await self._advance(twin, ())

    async def _promote(self, case: EvaluationCase, queued: Collection[str], *, leads: bool = False) -> None:
        # The reference seed is confirmed before its verdict: all other times are relative to it.
        refused = await self._promotion.proceed(case, queued, leads=leads or case.is_reference_seed)
        if refused is not None:
            await self._judge(case, refused.verdict(case.candidate.id), queued, revises=True)

    async def _settle_retrace(self, subject: JobSubject, report: TraceReport) -> None:
        """Continue with a candidate whose second trace was equal; refuse it otherwise."""
        others = self._retraces.claim(subject.candidate)
        bundles = self.unit_of_work.identities(report)
        variants = [_record(variant, bundles.get(variant.index)) for variant in report.variants]
        refused = await self._retraces.settle(subject.candidate, report.outcome, report.reason, variants)
        if refused is not None:
            await self._judge(subject, refused.verdict(subject.candidate.id), revises=True)
            await self.unit_of_work.commit()  # What it holds is given back by its verdict.
        for each in (subject, *others):
            await self.order_verdicts(each, set())

    async def _advance(self, subject: JobSubject, queued: Collection[str]) -> None:
        """Request the measurements that a candidate lacks. Judge it once it has all and nothing is pending."""
        cases, id = await self._cases(subject), subject.candidate.id
        known = {report.job for report in await self.unit_of_work.reports(id)}
        lacking = [case for case in cases if case.job() not in known]
        for name in subject.search.devices if lacking else ():
            await self._measure([case for case in lacking if case.device.name == name], queued)
        reports = await self.unit_of_work.reports(id)
        measured = {case.job() for case in cases} <= {report.job for report in reports}
        if cases and measured and not self._awaits(id):
            await self._conclude(subject, latest_reports(reports), queued)

    async def _measure(self, cases: Sequence[EvaluationCase], queued: Collection[str]) -> None:
        """Request the evaluation of one candidate's variants on one device.

        All wait for the verdict on the reference seed: until then another seed may take its place.
        """
        for case in cases:
            if not case.is_reference_seed and not await self.reference_seed.is_final(case.search):
                return
            found = await self._assignments.obtain(case, None, queued)
            if found is not None:
                await self._take(case, found, queued)
            elif case.device.measures and await self.reference_seed.pacer(case.search, case.device.name) is None:
                return  # The first correct variant of the reference seed becomes the pacer: the others wait for it.

    async def _cases(self, subject: JobSubject) -> list[EvaluationCase]:
        """List the cases of a candidate: each variant that has a bundle, on each device."""
        search, operator, candidate = subject.search, subject.operator, subject.candidate
        return [
            EvaluationCase(search, operator, candidate, variant.index, variant.bundle, Device.parse(name))
            for variant in await self.unit_of_work.variants(candidate.id)
            if variant.bundle is not None
            for name in search.devices
        ]

    def _awaits(self, candidate: str) -> bool:
        return self._retraces.awaits(candidate) or self._assignments.awaits(candidate)

    async def _conclude(self, subject: JobSubject, reports: Sequence[Report], queued: Collection[str]) -> None:
        """Judge a candidate by the last report on each of its variants; the best variant counts.

        A confirm revises a verdict that was given by the first measurement.
        """
        search, candidate = subject.search, subject.candidate
        best = min(reports, key=lambda report: report.outcome is not Outcome.CORRECT)
        objectives = await _objectives(self.reference_seed, search, reports)
        own = objectives.get(search.devices[0])  # Always the first device, so that candidates stay comparable.
        verdict = CandidateVerdict(candidate.id, best.outcome.value, best.reason, best.line, own, objectives)
        confirmed = any(report.kind == "confirm" for report in reports)
        stands = is_reference_seed(search, candidate) and best.outcome is Outcome.CORRECT
        if stands and (reason := _unpaced(search, reports)):
            await self.failures.fail(search, reason)
        await self._judge(subject, verdict, queued, revises=confirmed)

    async def _judge(
        self, subject: JobSubject, verdict: CandidateVerdict, queued: Collection[str] = (), *, revises: bool = False
    ) -> None:
        """Give a candidate its verdict. That on the reference seed lets the candidates that wait for it go on.

        Once the reference seed is refused, they relate to the next seed that is not.
        """
        search, candidate = subject.search, subject.candidate
        if not is_reference_seed(search, candidate):
            self.unit_of_work.judge(candidate, verdict, revises=revises)
            return
        await self.unit_of_work.commit()  # The verdicts on the other seeds are read from the archive.
        change = await self.reference_seed.change(search, verdict) if verdict.outcome != Outcome.CORRECT else None
        self.unit_of_work.judge(candidate, verdict, revises=revises, reference=change)
        first = candidate.id in await self.unit_of_work.commit()
        search = await self._store.searches.get(search.id)
        if await self.failures.has_reference(search) and first and search.state is not SearchState.FAILED:
            await self.baselines.relate_seed(search, subject.operator)
            await self.order_traced(search, subject.operator, queued)


def _unpaced(search: SearchRecord, reports: Sequence[Report]) -> str:
    """Explain why a search has no pacer: its reference seed fails on a device that measures. Empty if it has one."""
    for name in search.devices:
        here = [report for report in reports if report.device.name == name]
        if Device.parse(name).measures and all(report.outcome is not Outcome.CORRECT for report in here):
            return f"the operator's seed kernel is not correct on {name} ({here[0].outcome}): {here[0].reason}"
    return ""


async def _objectives(
    reference_seed: ReferenceSeed, search: SearchRecord, reports: Sequence[Report]
) -> dict[str, float]:
    """Return the best objective among the correct variants by device: devices never mix."""
    best: dict[str, float] = {}
    for report in reports:
        device, found = report.device.name, await reference_seed.speedup(search, report)
        if found is not None:
            best[device] = max(found.low, best.get(device, found.low))
    return best


def _record(variant: TracedVariant, identity: str | None) -> NewVariant:
    bundle = variant.bundle
    return NewVariant(
        index=variant.index,
        configuration=bundle.configuration if bundle else {},
        outcome=None if bundle else variant.outcome.value,
        reason=variant.reason,
        line=variant.line,
        bundle=identity,
        document=bundle.model_dump_json() if bundle else None,
        readings=tuple(readings.model_dump(mode="json") for readings in variant.readings) if bundle else None,
    )
