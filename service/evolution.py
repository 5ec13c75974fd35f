"""The loop that keeps every running search supplied with jobs and applies what comes back.

There is no generation barrier: whenever a search has fewer candidates in flight than it may, one more is proposed.
All state is in the archive; a killed loop starts again with a sweep that re-sends what got lost.
"""

import asyncio
import time

import structlog

from archive.errors import ArchiveError
from archive.errors import NotFound as Gone
from archive.records import CandidateState, Search, SearchState
from archive.store import Store
from service.errors import BadInput
from service.events import Events, SearchChanged
from service.jobs import reference_id, reference_job, trace_id
from service.proposals import Proposer
from service.tasks import end
from service.verdicts import Verdicts
from workers.protocol import AnyReport, Device, Operator, TraceReport
from workers.queue import Dispatcher

ACTIVE = (SearchState.PREPARING, SearchState.RUNNING)
OPEN = (*ACTIVE, SearchState.PAUSED)
COLLECT = 64
"""Most reports applied between two supplies."""
BLOCK_MS = 100
"""Longest wait for a report, so that new searches and free places are seen soon."""
IDLE_BEFORE_SWEEP_S = 15.0
"""Quiet time after which jobs are looked for that the queue may have lost. Longer than most judgements; looking once
too often costs a few queries."""
STOP_S = 20.0
"""Seconds that the running tick gets to end in; one that applies many reports takes a second or two."""
DUPLICATES_PER_EVALUATION = 20
"""A search whose proposals are this many times its budget has nothing new to say."""

log = structlog.get_logger(__name__)


class Evolution:
    """Runs the searches of one coordinator.

    Attributes:
        verdicts: What reports mean.
    """

    def __init__(self, store: Store, dispatcher: Dispatcher, events: Events, *, in_flight: int) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._events = events
        self._in_flight = in_flight
        self._proposer = Proposer(store)
        self.verdicts = Verdicts(store, dispatcher, events)
        self._operators: dict[str, Operator] = {}
        self._last_report = time.monotonic()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run in the background until `stop`."""
        self._task = asyncio.create_task(self.run(), name="evolution")

    async def stop(self) -> None:
        """Let the running tick finish, so that nothing is left half done in the archive, and end."""
        if self._task is None:
            return
        self._stopping = True
        await asyncio.wait([self._task], timeout=STOP_S)
        await end([self._task])

    async def run(self) -> None:
        """Sweep once, then tick until asked to stop. A tick that fails is logged and tried again."""
        swept = False
        while not self._stopping:
            try:
                if not swept:
                    await self._sweep_all()
                    swept = True
                await self.tick()
            except Exception:
                log.exception("tick failed")
                await asyncio.sleep(1.0)

    async def tick(self) -> None:
        """Apply what has come back, then fill free places."""
        deliveries = await self._dispatcher.collect(count=COLLECT, block_ms=BLOCK_MS)
        for delivery in deliveries:
            await self._apply(delivery.report)
        if deliveries:
            await self._dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
            self._last_report = time.monotonic()
        elif time.monotonic() - self._last_report > IDLE_BEFORE_SWEEP_S:
            await self._sweep_all()
        for search in await self._store.searches.list(states=ACTIVE):
            await self._supply(search)

    async def _apply(self, report: AnyReport) -> None:
        try:
            search = await self._store.searches.get(report.search)
            operator = await self._operator(search)
            if not isinstance(report, TraceReport):
                await self.verdicts.apply_report(search, operator, report)
            elif report.candidate is None:
                await self.verdicts.apply_reference(search, report)
            else:
                await self.verdicts.apply_trace(search, operator, report)
        except Gone:
            log.warning("report about nothing we know", job=report.job, search=report.search)

    async def _supply(self, search: Search) -> None:
        operator = await self._operator(search)
        if search.state is SearchState.PREPARING:
            await self._prepare(search, operator)
        else:
            await self._propose(search, operator)

    async def _prepare(self, search: Search, operator: Operator) -> None:
        """Plant the seeds once the reference is known; run once they are judged.

        Where times are measured the first seed is judged alone: it paces all others.
        """
        if not search.graphs:
            return
        counts = await self._store.candidates.count(search.id)
        alone = counts.judged == 0 and any(Device.parse(name).measures for name in search.devices)
        due = 1 if alone else max(1, len(operator.seeds))
        if counts.proposals < due:
            try:
                planted = await self._proposer.plant(search, operator, range(counts.proposals, due))
            except BadInput as error:
                await self.verdicts.fail(search, error.detail)
                return
            for candidate in planted:
                await self.verdicts.trace(search, operator, candidate)
        elif counts.in_flight == 0:
            await self._enter(search, SearchState.RUNNING)

    async def _propose(self, search: Search, operator: Operator) -> None:
        counts = await self._store.candidates.count(search.id)
        ordinal, free = counts.proposals, min(self._in_flight - counts.in_flight, search.budget - counts.candidates)
        exhausted = ordinal >= search.budget * DUPLICATES_PER_EVALUATION
        while free > 0 and not exhausted:
            found, candidate = await self._proposer.propose(search, operator, ordinal)
            exhausted = not found or ordinal + 1 >= search.budget * DUPLICATES_PER_EVALUATION
            ordinal += 1
            if candidate is not None:
                free -= 1
                await self.verdicts.trace(search, operator, candidate)
        counts = await self._store.candidates.count(search.id)
        if counts.in_flight == 0 and (exhausted or counts.candidates >= search.budget):
            await self._enter(search, SearchState.DONE, "nothing new to propose" if exhausted else "")

    async def _enter(self, search: Search, state: SearchState, reason: str = "") -> None:
        """Move on, unless a person paused or stopped the search in the meantime."""
        try:
            await self._store.searches.set_state(search.id, state, reason=reason, only_from=(search.state,))
        except ArchiveError as error:
            log.info("search changed meanwhile", search=search.id, detail=str(error))
            return
        self._events.publish(SearchChanged(search=search.id, state=state.value, reason=reason))

    async def _sweep_all(self) -> None:
        for search in await self._store.searches.list(states=OPEN, limit=1000):
            await self.sweep(search)
        self._last_report = time.monotonic()

    async def sweep(self, search: Search) -> None:
        """Send again whatever should be on its way and is not."""
        operator = await self._operator(search)
        queued = await self._dispatcher.outstanding(search.id)
        self.verdicts.forget(search)
        if not search.graphs and reference_id(search.id) not in queued:
            await self._dispatcher.submit(reference_job(search, operator))
        for candidate in await self._store.candidates.unfinished(search.id):
            if candidate.state is CandidateState.TRACED:
                await self.verdicts.order_verdicts(search, operator, candidate, queued)
            elif trace_id(candidate.id) not in queued:
                await self.verdicts.trace(search, operator, candidate)

    async def _operator(self, search: Search) -> Operator:
        if search.operator not in self._operators:
            record = await self._store.operators.get(search.operator)
            self._operators[search.operator] = Operator.model_validate_json(record.document)
        return self._operators[search.operator]
