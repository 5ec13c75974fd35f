"""A coordinator's inside with a real archive and a real queue, and a worker whose answers the test decides.

The worker leases real jobs and sends real reports; only what it says about candidates is made up.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from archive.records import NewSearch, Search, SearchState
from archive.store import Store, migrate
from service.events import Events
from service.evolution import Evolution
from tests.service import records
from workers.protocol import (
    AnyReport,
    Bundle,
    Graph,
    InputRef,
    Job,
    MeasureJob,
    Outcome,
    TracedVariant,
    TraceJob,
    TraceReport,
)
from workers.queue import Dispatcher, Lessee


@dataclass
class Answers:
    """What the worker says. `time_us` gives every shape's time for a bundle; `bundle` what a source becomes."""

    time_us: Callable[[str], float] = lambda bundle: 10.0
    bundle: Callable[[str], Bundle | None] = lambda source: records.bundle(1 + len(source))
    seen: list[Job] = field(default_factory=list)

    def to(self, job: Job) -> AnyReport:
        """Answer one job."""
        self.seen.append(job)
        if isinstance(job, TraceJob):
            return self._traced(job)
        assert isinstance(job, MeasureJob)
        identity = job.bundle.identity
        times = {shape.key: self.time_us(identity) for shape in records.SHAPES[1:]}
        return records.report(
            times, job=job.id, search=job.search, candidate=job.candidate, variant=job.variant, bundle=identity
        )

    def _traced(self, job: TraceJob) -> TraceReport:
        base = {"job": job.id, "search": job.search, "candidate": job.candidate, "worker": "w"}
        if job.source is None:
            graphs = tuple(
                Graph(
                    shape=shape,
                    nodes=(),
                    outputs=(InputRef(input=0),),
                    output_shapes=((shape.dims["N"],),),
                    output_dtypes=("float32",),
                )
                for shape in job.shapes
            )
            return TraceReport(outcome=Outcome.CORRECT, graphs=graphs, **base)
        bundle = self.bundle(job.source)
        if bundle is None:
            return TraceReport(outcome=Outcome.COMPILE_ERROR, reason="no such name", line=3, **base)
        warps = (1, 2, 4, 8, 16)[len(job.source) % 5]
        readings = tuple(records.readings(warps) for _ in job.shapes)
        variant = TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=bundle, readings=readings)
        return TraceReport(outcome=Outcome.CORRECT, variants=(variant,), **base)


@dataclass
class Workbench:
    """The parts, ready to tick."""

    store: Store
    dispatcher: Dispatcher
    events: Events
    evolution: Evolution
    redis_url: str
    answers: Answers = field(default_factory=Answers)

    @classmethod
    async def open(cls, folder: Path, redis_url: str, *, in_flight: int = 4) -> "Workbench":
        """Open an archive in `folder` and a queue at `redis_url`; opening again is a restart."""
        url = f"sqlite+aiosqlite:///{folder / 'reef.db'}"
        await migrate(url)
        store = await Store.open(url)
        dispatcher, events = Dispatcher(redis_url), Events()
        return cls(store, dispatcher, events, Evolution(store, dispatcher, events, in_flight=in_flight), redis_url)

    async def close(self) -> None:
        """What a clean end does; a kill is not calling it."""
        await self.dispatcher.close()
        await self.store.close()

    async def begin(self, **changes: object) -> Search:
        """Store a search over `records.OPERATOR` and start it."""
        template = records.search(state=SearchState.PREPARING, **changes)
        await self.store.operators.put(
            records.OPERATOR.digest, records.OPERATOR.name, records.OPERATOR.model_dump_json()
        )
        fields = (
            "id",
            "operator",
            "operator_name",
            "devices",
            "emitters",
            "axes",
            "axes_version",
            "budget",
            "seed",
            "shapes",
        )
        search = await self.store.searches.create(NewSearch(**{name: getattr(template, name) for name in fields}))
        await self.evolution.sweep(search)
        return search

    def work(self, most: int = 100) -> int:
        """Let the worker answer what is queued; returns how many jobs it answered."""
        lessee = Lessee(self.redis_url, "w", target="sm_90", device=records.DEVICE)
        for answered in range(most):
            lease = lessee.lease(block_ms=10)
            if lease is None:
                return answered
            lessee.report(lease, self.answers.to(lease.job))
        return most

    async def run(self, search: Search, *, rounds: int = 200) -> Search:
        """Tick and work in turn until the search ends."""
        for _ in range(rounds):
            await self.evolution.tick()
            await asyncio.to_thread(self.work)
            search = await self.store.searches.get(search.id)
            if search.state in (SearchState.DONE, SearchState.FAILED, SearchState.STOPPED):
                return search
        raise AssertionError(f"the search is still {search.state} after {rounds} rounds")
