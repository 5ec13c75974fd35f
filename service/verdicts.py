"""What a report means for its search: traces become variants, verdicts become offers, candidates get judged.

Every method may run twice for the same report; the archive's writes are idempotent by job.
"""

from collections import defaultdict
from collections.abc import Iterable

from archive.records import SEED_EMITTER, Candidate, NewReport, NewVariant, Search, SearchState, Traced, Variant
from archive.store import Store
from service.events import CandidateJudged, Events, SearchChanged
from service.jobs import measure_id, measure_job, trace_job
from service.promotion import Promotion, benchmark_weights, speedup, times_us
from workers.protocol import (
    PROTOCOL_VERSION,
    Bundle,
    Device,
    Operator,
    Outcome,
    Report,
    TracedVariant,
    TraceReport,
)
from workers.queue import Dispatcher

Waiting = tuple[Candidate, int]
"""A candidate and one of its variants, waiting for a verdict on a bundle."""


class Verdicts:
    """Applies reports and orders the judging of what was traced.

    A bundle in flight is judged once, however many variants wait for it; `_waiting` only saves that work and is
    rebuilt from the archive after a restart.
    """

    def __init__(self, store: Store, dispatcher: Dispatcher, events: Events) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._events = events
        self._promotion = Promotion(store, events)
        self._waiting: dict[tuple[str, str, str], list[Waiting]] = defaultdict(list)

    async def trace(self, search: Search, operator: Operator, candidate: Candidate) -> None:
        """Have a candidate traced, or take an equal one's trace out of the archive."""
        earlier = await self._store.candidates.find_traced(candidate.trace_key)
        if earlier is None:
            await self._dispatcher.submit(trace_job(search, operator, candidate))
            return
        variants = await self._store.candidates.variants(earlier.id)
        traced = Traced(
            outcome=earlier.outcome if not variants else None,
            reason=earlier.reason,
            line=earlier.line,
            stages_s={},
            variants=tuple(_repeat(variant) for variant in variants),
        )
        await self._settle_trace(search, operator, candidate, traced)

    async def apply_reference(self, search: Search, report: TraceReport) -> None:
        """Keep a search's reference graphs, or fail the search with the reason that there are none."""
        if report.graphs:
            await self._store.searches.set_graphs(search.id, [graph.model_dump(mode="json") for graph in report.graphs])
        else:
            await self.fail(search, f"the reference does not export: {report.reason}")

    async def apply_trace(self, search: Search, operator: Operator, report: TraceReport) -> None:
        """Store a candidate's variants and order their judging."""
        candidate = await self._store.candidates.get(report.candidate or "")
        variants = tuple(_record(variant) for variant in report.variants)
        whole = None if report.outcome is Outcome.CORRECT else report.outcome.value
        traced = Traced(
            outcome=whole, reason=report.reason, line=report.line, stages_s=report.stages_s, variants=variants
        )
        await self._settle_trace(search, operator, candidate, traced)

    async def apply_report(self, search: Search, operator: Operator, report: Report) -> None:
        """Give a verdict to every variant that waits for it."""
        waiting = self._waiting.pop((search.id, report.bundle, report.device.name), [])
        asked = await self._store.candidates.get(report.candidate)
        if not any(candidate.id == asked.id and variant == report.variant for candidate, variant in waiting):
            waiting.append((asked, report.variant))
        for candidate, variant in waiting:
            await self._settle_verdict(search, operator, candidate, _for(report, candidate, variant))

    async def order_verdicts(self, search: Search, operator: Operator, candidate: Candidate, queued: set[str]) -> None:
        """Have every variant of a traced candidate judged; jobs among `queued` are on their way already."""
        known = {report.job for report in await self._reports(candidate)}
        for variant in await self._store.candidates.variants(candidate.id):
            for device in search.devices:
                job = measure_id(candidate.id, variant.index, device)
                if variant.bundle is not None and job not in known:
                    await self._order(search, operator, candidate, variant, device=device, queued=queued)
        await self._judge_if_complete(search, candidate)

    def forget(self, search: Search) -> None:
        """Drop what is remembered of a search's jobs in flight, before a sweep finds it anew."""
        for key in [key for key in self._waiting if key[0] == search.id]:
            del self._waiting[key]

    async def fail(self, search: Search, reason: str) -> None:
        """End a search that cannot go on."""
        await self._store.searches.set_state(search.id, SearchState.FAILED, reason=reason)
        self._events.publish(SearchChanged(search=search.id, state=SearchState.FAILED.value, reason=reason))

    async def baseline_us(self, search: Search, device: str) -> dict[str, float]:
        """Times that speedups on a device are relative to: the first seed's, by shape key; empty before its verdict."""
        seeds = await self._store.candidates.seeds(search.id)
        reports = await self._reports(seeds[0]) if seeds else []
        correct = [report for report in reports if report.device.name == device and report.outcome is Outcome.CORRECT]
        return times_us(correct[0]) if correct else {}

    async def _settle_trace(self, search: Search, operator: Operator, candidate: Candidate, traced: Traced) -> None:
        await self._store.candidates.save_trace(candidate.id, traced)
        if any(variant.bundle for variant in traced.variants):
            await self.order_verdicts(search, operator, candidate, set())
            return
        first = next(iter(traced.variants), None)
        outcome = traced.outcome or (first.outcome if first else None) or Outcome.TRACE_CRASHED.value
        reason, line = (traced.reason, traced.line) if first is None else (first.reason, first.line)
        await self._judge(search, candidate, outcome, reason or traced.reason, line)

    async def _order(
        self,
        search: Search,
        operator: Operator,
        candidate: Candidate,
        variant: Variant,
        *,
        device: str,
        queued: set[str],
    ) -> None:
        bundle = variant.bundle or ""
        waiting = self._waiting[(search.id, bundle, device)]
        if any(other.id == candidate.id and index == variant.index for other, index in waiting):
            return
        found = await self._store.reports.find(
            operator=operator.digest, bundle=bundle, device=device, protocol_version=PROTOCOL_VERSION
        )
        if found is not None:
            report = _for(Report.model_validate_json(found), candidate, variant.index)
            await self._settle_verdict(search, operator, candidate, report)
            return
        if not waiting and measure_id(candidate.id, variant.index, device) not in queued:
            document = (await self._store.bundles.get(bundle)).document
            job = measure_job(
                search,
                operator,
                candidate,
                variant=variant.index,
                bundle=Bundle.model_validate_json(document),
                device=Device.parse(device),
            )
            await self._dispatcher.submit(job)
        waiting.append((candidate, variant.index))

    async def _settle_verdict(self, search: Search, operator: Operator, candidate: Candidate, report: Report) -> None:
        await self._store.reports.save(_stored(search, operator, candidate, report))
        baseline = await self.baseline_us(search, report.device.name)
        await self._promotion.consider(search, candidate, report, baseline)
        await self._judge_if_complete(search, candidate)

    async def _judge_if_complete(self, search: Search, candidate: Candidate) -> None:
        reports = await self._reports(candidate)
        variants = await self._store.candidates.variants(candidate.id)
        expected = sum(variant.bundle is not None for variant in variants) * len(search.devices)
        if len({report.job for report in reports}) < expected or not expected:
            return
        best = min(reports, key=lambda report: report.outcome is not Outcome.CORRECT)
        await self._judge(
            search, candidate, best.outcome.value, best.reason, best.line, await self._gain(search, reports)
        )

    async def _gain(self, search: Search, reports: Iterable[Report]) -> float | None:
        weights = benchmark_weights(search)
        gains = [
            gain.low
            for report in reports
            if report.outcome is Outcome.CORRECT
            and (gain := speedup(report, await self.baseline_us(search, report.device.name), weights))
        ]
        return max(gains, default=None)

    async def _judge(
        self,
        search: Search,
        candidate: Candidate,
        outcome: str,
        reason: str,
        line: int | None,
        objective: float | None = None,
    ) -> None:
        if not await self._store.candidates.judge(candidate.id, outcome, reason, line, objective):
            return
        self._events.publish(
            CandidateJudged(
                search=search.id,
                candidate=candidate.id,
                ordinal=candidate.ordinal,
                emitter=candidate.emitter,
                outcome=outcome,
                reason=reason,
                objective=objective,
            )
        )
        if candidate.emitter == SEED_EMITTER and candidate.ordinal == 0 and outcome != Outcome.CORRECT:
            await self.fail(search, f"the operator's seed kernel is not correct ({outcome}): {reason}")

    async def _reports(self, candidate: Candidate) -> list[Report]:
        documents = await self._store.reports.of_candidate(candidate.id)
        return [Report.model_validate_json(document) for document in documents]


def _for(report: Report, candidate: Candidate, variant: int) -> Report:
    """The same verdict for another variant with an equal bundle."""
    job = measure_id(candidate.id, variant, report.device.name)
    return report.model_copy(
        update={"job": job, "search": candidate.search, "candidate": candidate.id, "variant": variant}
    )


def _record(variant: TracedVariant) -> NewVariant:
    bundle = variant.bundle
    return NewVariant(
        index=variant.index,
        configuration=bundle.configuration if bundle else {},
        outcome=None if bundle else variant.outcome.value,
        reason=variant.reason,
        line=variant.line,
        bundle=bundle.identity if bundle else None,
        document=bundle.model_dump_json() if bundle else None,
        readings=tuple(readings.model_dump(mode="json") for readings in variant.readings) if bundle else None,
    )


def _repeat(variant: Variant) -> NewVariant:
    """A variant of an equal candidate; its bundle is in the archive already."""
    return NewVariant(
        index=variant.index,
        configuration=variant.configuration,
        outcome=variant.outcome,
        reason=variant.reason,
        line=variant.line,
        bundle=variant.bundle,
        document=None,
        readings=None,
    )


def _stored(search: Search, operator: Operator, candidate: Candidate, report: Report) -> NewReport:
    return NewReport(
        job=report.job,
        search=search.id,
        candidate=candidate.id,
        variant=report.variant,
        bundle=report.bundle,
        operator=operator.digest,
        device=report.device.name,
        kind=report.kind,
        protocol_version=report.protocol_version,
        outcome=report.outcome.value,
        reason=report.reason,
        provenance=report.provenance.value,
        document=report.model_dump_json(),
    )
