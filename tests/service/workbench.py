"""A coordinator's inside with a real archive and a real queue, and a worker whose answers the test decides.

The worker leases real jobs and sends real reports; only what it says about candidates is made up.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from archive.records import NewSearch, SearchRecord, SearchState
from archive.store import Store
from kernelreef.states import ENDED
from service.events import EventBus
from service.scheduler.backpressure import CandidateLimits
from service.scheduler.evolution import Evolution
from service.scheduler.leases import SearchLeases
from tests.archives import archive_in
from tests.service import records
from workers.protocol import (
    AnyReport,
    Bundle,
    CheckResult,
    ConfirmJob,
    FinalJob,
    Job,
    MeasureJob,
    MutationReport,
    Operator,
    Outcome,
    Provenance,
    Ratio,
    TracedVariant,
    TraceJob,
    TraceReport,
    Trust,
)
from workers.queue import Dispatcher, LeaseClient

Judging = MeasureJob | ConfirmJob
Kind = TypeVar("Kind", TraceJob, MeasureJob, ConfirmJob)


def ratio(middle: float) -> Ratio:
    """A speedup with bounds of 2 %."""
    return Ratio(low=0.98 * middle, mid=middle, high=1.02 * middle)


@dataclass
class Answers:
    """What the worker says.

    Attributes:
        time_us: Every shape's time for a bundle.
        bundle: What a source becomes.
        further: Bundles of its other variants.
        outcome: What becomes of a variant.
        speedup: On cards, the middle of the speedup over the pacer; None if it is unknown.
        baselines: On cards, the pacer's speedup over the best baseline; None while the baselines are not measured.
        rival: On cards, the lower bound of the incumbent's time over the challenger's.
        draft: What a reference is drafted as; empty where it is not.
        final: What becomes of a finalist.
        retraced: What a finalist's source becomes when it is traced once more; None where that comes to nothing.
        seen: The jobs so far, but for those on finalists.
        finals: The jobs on finalists so far.
    """

    time_us: Callable[[str], float] = lambda bundle: 10.0
    bundle: Callable[[str], Bundle | None] = lambda source: records.bundle_from(source)
    further: Callable[[str], tuple[Bundle, ...]] = lambda source: ()
    outcome: Callable[[Judging], Outcome] = lambda job: Outcome.CORRECT
    speedup: Callable[[Judging], float | None] = lambda job: 1.0
    baselines: Callable[[Judging], float | None] = lambda job: 1.0
    rival: Callable[[ConfirmJob], float] = lambda job: 1.0
    draft: str = ""
    final: Callable[[FinalJob], Outcome] = lambda job: Outcome.CORRECT
    retraced: Callable[[str], Bundle | None] | None = None
    seen: list[Job] = field(default_factory=list)
    finals: list[TraceJob | FinalJob] = field(default_factory=list)

    def to(self, job: Job) -> AnyReport:
        """Answer one job."""
        if isinstance(job, FinalJob) or (isinstance(job, TraceJob) and job.references):
            self.finals.append(job)
            return self._examined(job) if isinstance(job, FinalJob) else self._traced(job)
        self.seen.append(job)
        if isinstance(job, TraceJob):
            return self._traced(job)
        identity = bundle_of(job).identity
        times = {shape.key: self.time_us(identity) for shape in records.SHAPES[1:]}
        report = records.report(
            times,
            kind=job.kind,
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            variant=job.variant,
            bundle=identity,
            device=job.device,
            outcome=self.outcome(job),
        )
        return report.model_copy(update=self._measured(job)) if job.device.measures else report

    def _measured(self, job: Judging) -> dict[str, object]:
        """What a report of a card says besides."""
        middle = self.speedup(job) if self.outcome(job) is Outcome.CORRECT else None
        worth = None if middle is None else self.baselines(job)
        low = self.rival(job) if isinstance(job, ConfirmJob) and job.incumbent else None
        return {
            "provenance": Provenance.MEASURED,
            "trust": Trust.B,
            "over_pacer": None if middle is None else ratio(middle),
            "pacer_speedup": None if worth is None else Ratio(low=worth, mid=worth, high=worth),
            "speedup": None if worth is None or middle is None else ratio(middle * worth),
            "rival": None if low is None else Ratio(low=low, mid=low + 0.01, high=low + 0.02),
        }

    def _examined(self, job: FinalJob) -> AnyReport:
        outcome = self.final(job)
        return records.report(
            {},
            kind=job.kind,
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            variant=job.variant,
            bundle=job.finalist,
            device=job.device,
            outcome=outcome,
            reason="" if outcome is Outcome.CORRECT else "found under the sanitizer",
            provenance=Provenance.MEASURED if job.device.measures else Provenance.PREDICTED,
            checks=(
                CheckResult(name="random_shapes", verdict="passed"),
                CheckResult(name="memcheck", verdict="skipped"),
            ),
        )

    def _traced(self, job: TraceJob) -> TraceReport:
        base = {"job": job.id, "search": job.search, "candidate": job.candidate, "worker": "w"}
        if job.drafts:
            outcome = Outcome.CORRECT if self.draft else Outcome.FORBIDDEN_OP
            return TraceReport(outcome=outcome, draft=self.draft, **base)
        if job.bundle is not None:
            bundle = job.bundle.model_copy(update={"cubins": dict.fromkeys(job.bundle.kernels, records.CUBIN)})
            readings = tuple(records.readings() for _ in job.shapes)
            assembled = TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=bundle, readings=readings)
            return TraceReport(outcome=Outcome.CORRECT, variants=(assembled,), **base)
        graphs = tuple(records.graph(shape) for shape in job.shapes) if job.source is None or job.references else ()
        if job.source is None:
            gate = MutationReport(verdict="passed") if job.mutation_testing else None
            return TraceReport(outcome=Outcome.CORRECT, graphs=graphs, gate=gate, **base)
        bundle = (self.retraced if job.references and self.retraced else self.bundle)(job.source)
        if bundle is None:
            return TraceReport(outcome=Outcome.COMPILE_ERROR, reason="no such name", line=3, **base)
        warps = (1, 2, 4, 8, 16)[len(job.source) % 5]
        readings = tuple(records.readings(warps) for _ in job.shapes)
        variants = tuple(
            TracedVariant(
                index=index,
                outcome=Outcome.CORRECT,
                bundle=records.widened(each, job.shapes) if job.references else each,
                readings=readings,
            )
            for index, each in enumerate((bundle, *self.further(job.source)))
        )
        return TraceReport(outcome=Outcome.CORRECT, variants=variants, graphs=graphs, **base)


def bundle_of(job: Judging) -> Bundle:
    """What a job is about."""
    return job.bundle if isinstance(job, MeasureJob) else job.challenger


@dataclass
class Workbench:
    """The parts, ready to tick."""

    store: Store
    dispatcher: Dispatcher
    events: EventBus
    evolution: Evolution
    redis_url: str
    answers: Answers = field(default_factory=Answers)
    devices: tuple[str, ...] = (records.DEVICE,)

    @classmethod
    async def open(cls, folder: Path, redis_url: str, *, in_flight: int = 4, alone: bool = True) -> "Workbench":
        """Open an archive in `folder` and a queue at `redis_url`; again: a restart or a second coordinator."""
        return cls.over(await Store.open(archive_in(folder)), redis_url, in_flight=in_flight, alone=alone)

    @classmethod
    def over(cls, store: Store, redis_url: str, *, in_flight: int = 4, alone: bool = True) -> "Workbench":
        """Put the parts around an open archive."""
        dispatcher, events = Dispatcher(redis_url, alone=alone), EventBus()
        limits = CandidateLimits(per_search=in_flight, per_owner=100, in_all=100)
        search_leases = SearchLeases(store, alone=alone)
        evolution = Evolution(store, dispatcher, events, limits=limits, search_leases=search_leases)
        return cls(store, dispatcher, events, evolution, redis_url)

    async def close(self) -> None:
        """What a clean end does; a kill is not calling it."""
        await self.dispatcher.close()
        await self.store.close()

    async def begin(self, operator: Operator | None = None, **changes: object) -> SearchRecord:
        """Store a search over an operator, `records.OPERATOR` by default, and start it."""
        operator = operator or records.OPERATOR
        changes = {"operator": operator.digest, **changes}
        template = records.search(**{"state": SearchState.PREPARING, "devices": self.devices, **changes})
        await self.store.operators.put(operator.digest, operator.name, operator.model_dump_json())
        fields = (
            "id",
            "operator",
            "operator_name",
            "devices",
            "emitters",
            "axes",
            "axes_version",
            "evaluations",
            "seed",
            "shapes",
            "stop",
            "compiler",
        )
        search = await self.store.searches.create(NewSearch(**{name: getattr(template, name) for name in fields}))
        await self.evolution.sweep(search)
        return search

    def judged(self, kind: type[Kind]) -> list[Kind]:
        """The jobs of a kind that the worker saw."""
        return [job for job in self.answers.seen if isinstance(job, kind)]

    def work(self, most: int = 100, *, but: Collection[str] = ()) -> int:
        """Let the worker answer what is queued; returns how many jobs it answered. The jobs of `but` stay queued."""
        kept = []
        lessees = [LeaseClient(self.redis_url, "w", target="sm_90", device=device) for device in self.devices]
        for answered in range(most):
            lease = next((lease for lessee in lessees if (lease := lessee.lease(block_ms=10))), None)
            if lease is None:
                most = answered
                break
            if lease.job.id in but:
                kept.append(lease)
                continue
            lessees[0].report(lease, self.answers.to(lease.job))
        for lease in kept:
            lessees[0].release(lease)
        return most

    async def run(self, search: SearchRecord, *, rounds: int = 200) -> SearchRecord:
        """Tick and work in turn until the search has ended, and its finalists are examined."""
        for _ in range(rounds):
            await self.evolution.tick()
            await asyncio.to_thread(self.work)
            search = await self.store.searches.get(search.id)
            if search.state in ENDED and not search.finishing:
                return search
        raise AssertionError(f"the search is still {search.state} after {rounds} rounds")
