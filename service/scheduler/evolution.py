"""Main loop of a coordinator: supply every running search with candidates and apply the reports.

There is no generation barrier: a search gets a new candidate as soon as fewer are in flight than its limit. All state
is in the archive. Several coordinators may run this loop on one archive, each for the searches that it holds. A search
with a new holder starts with a sweep, which sends lost jobs again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog

from archive.errors import DatabaseUnavailable
from archive.errors import RecordConflict as ArchiveConflict
from archive.errors import RecordNotFound as Gone
from archive.records import CandidateState, SearchFingerprint, SearchRecord, SearchState
from archive.store import Store
from kernelreef.states import ACTIVE
from service.evaluation.finalists import Finalists
from service.evaluation.jobs import JobSubject, trace_id
from service.evaluation.spot_checks import SpotChecks
from service.evaluation.verdicts import Verdicts
from service.events import EventBus
from service.generation.preparation import Preparation
from service.generation.proposals import Proposer
from service.generation.stop_rules import stop_reason, time_over
from service.generation.supply import CandidateSupply
from service.llm import LlmClient
from service.scheduler.backpressure import CandidateLimits, InFlightLimits
from service.scheduler.ingestion import Ingestion
from service.scheduler.kernel_intake import KernelIntake
from service.scheduler.leases import SearchLeases
from service.scheduler.running_time import RunningTime
from service.scheduler.search_cache import SearchCache
from service.scheduler.transitions import SearchTransitions
from service.tasks import end
from workers.protocol import Operator
from workers.queue import Dispatcher, QueueUnavailable

IDLE_BEFORE_SWEEP_S = 15.0
"""Seconds without a report after which a search is swept for lost jobs. Longer than most judgements; a needless sweep
costs a few queries."""
SUPPLY_S = 0.25
"""Seconds of proposing after which reports are applied again; the search that is being supplied is finished first."""
SWEPT_S = 0.5
"""Seconds of sweeping after which reports are applied again; the search that is being swept is finished first."""
PROPOSED_AT_ONCE = 4
"""Maximum number of candidates proposed for one search in its turn."""
LIFE_S = 1.0
"""Seconds between two checks for a restart of the queue's server."""
PAUSE_S = 1.0
"""Seconds before a tick that failed is tried again."""
STOP_S = 20.0
"""Seconds that the running tick gets to finish; one that applies many reports takes a second or two."""

log = structlog.get_logger(__name__)


class Evolution:
    """Runs the searches that one coordinator holds.

    Attributes:
        verdicts: Applies reports.
        finals: Requests and applies examinations of finalists.
        search_leases: Leases on the searches.
        spot_checks: Spot checks of remote workers.
        intake: Kernels that agents submit, or have checked.
        preparation: Requests and applies what searches need before they run.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        events: EventBus,
        *,
        limits: CandidateLimits,
        search_leases: SearchLeases | None = None,
        workers_for: Callable[[SearchRecord], Awaitable[None]] | None = None,
        ask: LlmClient | None = None,
    ) -> None:
        """Prepare.

        Args:
            store: The archive.
            dispatcher: The queue.
            events: The bus for events.
            limits: Limits on candidates in flight.
            search_leases: Leases on searches; None if this is the only coordinator.
            workers_for: Starts local workers for a search that this coordinator takes.
            ask: Client for language models; None makes emitters that need one propose nothing.
        """
        self._workers_for = workers_for
        self._store = store
        self._dispatcher = dispatcher
        self.search_leases = search_leases or SearchLeases(store, alone=True)
        self.verdicts = Verdicts(store, dispatcher, events)
        self.finals = Finalists(store, dispatcher, events)
        self._cache = SearchCache(store)
        self._limits_in_flight = InFlightLimits(dispatcher, limits)
        self._running_time = RunningTime(store)
        self._transitions = SearchTransitions(store, events, self.search_leases, self.finals, self.verdicts)
        self.spot_checks = SpotChecks(store, events)
        self._proposer = Proposer(store, self.search_leases.holder, self._limits_in_flight.compilers)
        self._proposing = CandidateSupply(store, self._proposer, self.verdicts, ask)
        self.preparation = Preparation(store, dispatcher, self._proposer, self.verdicts)
        self._ingestion = Ingestion(
            dispatcher, self.verdicts, self.finals, self.preparation, self.spot_checks, self._cache, self.search_leases
        )
        self.intake = KernelIntake(
            store, self.search_leases, self._proposing.submissions, self._ingestion.source_checks
        )
        self._reported_at: dict[str, float] = {}
        self._arrived: frozenset[str] = frozenset()
        self._turns: dict[str, float] = {}
        self._turn = 0.0
        self._life, self._life_at = "", 0.0
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run in the background until `stop`."""
        self.search_leases.start()
        self._task = asyncio.create_task(self.run(), name="evolution")

    async def stop(self) -> None:
        """Finish the running tick, so that the archive is consistent, then release the searches and end."""
        if self._task is None:
            await self._proposing.close()
            return
        self._stopping = True
        await asyncio.wait([self._task], timeout=STOP_S)
        await end([self._task])
        await self._proposing.close()
        await self.search_leases.stop()

    async def run(self) -> None:
        """Tick until `stop`. A tick that fails is logged and tried again."""
        while not self._stopping:
            try:
                await self.tick()
            except (DatabaseUnavailable, QueueUnavailable) as error:
                log.warning("tick failed", reason=str(error))
                self._suspect_losses()
                await asyncio.sleep(PAUSE_S)
            except Exception:
                log.exception("tick failed")
                await asyncio.sleep(PAUSE_S)

    async def tick(self) -> None:
        """Apply reports, finish searches that are done, then propose candidates."""
        await self.search_leases.refresh()
        # A search with a conversation is not handed over: its paid answer arrives in this process.
        quiet = [search for search in self._reported_at if not self._proposing.waiting(search)]
        await self.search_leases.share(self._cache.by_load(quiet))
        inbox = await self._ingestion.collect()
        self._limits_in_flight.observe(inbox.reports)
        self._arrived, held = frozenset(report.job for report in inbox.reports), self.search_leases.held
        await self._cache.look()
        await self._take_up(held)
        if inbox.reports:
            applied, doubtful = await self._ingestion.apply(inbox)
            self._reported_at.update(dict.fromkeys(applied & self._reported_at.keys(), time.monotonic()))
            self._reported_at.update(dict.fromkeys(doubtful & self._reported_at.keys(), 0.0))
            await self._cache.look()
        self._arrived = frozenset()
        await self._sweep_quiet()
        await self._running_time.count([search.id for search in await self._cache.those(self._reported_at, ACTIVE)])
        for search in await self._cache.those(self._reported_at, (SearchState.DONE,)):
            in_flight = self._cache.fingerprints[search.id].in_flight
            await self._transitions.finish(search, await self._cache.operator(search), in_flight)
        await self._supply_all()

    async def _take_up(self, held: frozenset[str]) -> None:
        """Sweep newly held searches, and forget those that have ended or are held by another coordinator.

        Args:
            held: Searches held before the last look: one that is not open since has ended.
        """
        fingerprints = self._cache.fingerprints
        until = time.monotonic() + SWEPT_S
        for search in held - self._reported_at.keys():
            if search in fingerprints and time.monotonic() < until:
                await self.sweep(await self._cache.get(search))
        await self._release_ended((held | self._reported_at.keys()) - fingerprints.keys())
        for search in self._reported_at.keys() - (held & fingerprints.keys()):
            del self._reported_at[search]
            # Its jobs are gone from the queue, so other searches that waited for one of them need a sweep.
            self.finals.forget(search)
            for other in self.verdicts.forget(search) & self._reported_at.keys():
                self._reported_at[other] = 0.0

    async def _release_ended(self, ended: Collection[str]) -> None:
        """Cancel the jobs of ended searches and release their leases."""
        for search in ended:
            await self._dispatcher.cancel(search)
        await self.search_leases.release(ended)

    async def _supply_all(self) -> None:
        """Propose candidates for `SUPPLY_S` seconds; searches take turns in proportion to their priority."""
        fingerprints, until = self._cache.fingerprints, time.monotonic() + SUPPLY_S
        await self._limits_in_flight.look(_counted(fingerprints, self._reported_at, self.search_leases))
        mine = await self._cache.those(self._reported_at, ACTIVE)
        await self._proposing.retain({search.id for search in mine if search.state is SearchState.RUNNING})
        for search in mine:
            self._limits_in_flight.add(search, self._proposing.waiting(search.id))
            self._dispatcher.share(search.id, search.owner, search.priority)
        self._turns = {search.id: self._turns.get(search.id, self._turn) for search in mine}
        for search in sorted(mine, key=lambda search: self._turns[search.id]):
            if time.monotonic() > until:
                return
            self._turn = self._turns[search.id]
            self._turns[search.id] += 1 / search.priority
            try:
                await self._supply(search, fingerprints[search.id].in_flight)
                await self.verdicts.unit_of_work.commit()
            except (ArchiveConflict, Gone) as error:
                log.info("search changed or deleted meanwhile", search=search.id, detail=str(error))

    async def _supply(self, search: SearchRecord, in_flight: int) -> None:
        operator = await self._cache.operator(search)
        await self.verdicts.confirm(search, operator)
        if search.state is SearchState.PREPARING:
            await self._prepare(search, operator)
            return
        await self.finals.examine_leaders(search, operator)
        in_flight += await self._proposing.settle(search, operator)
        free = self._limits_in_flight.free(search, in_flight + self._proposing.waiting(search.id))
        if met := await stop_reason(self._store, search):
            supplied = await self._proposing.stop(search, met)
        elif free > 0 or in_flight == 0:
            supplied = await self._proposing.supply(search, operator, min(free, PROPOSED_AT_ONCE))
        else:
            return
        self._limits_in_flight.add(search, supplied.added)
        if supplied.state is not None:
            await self._transitions.enter(search, supplied.state, supplied.reason)

    async def _prepare(self, search: SearchRecord, operator: Operator) -> None:
        """Start to run once all is prepared; a search without a verdict for too long ends."""
        if over := time_over(search, await self._store.candidates.count(search.id)):
            await self._transitions.enter(search, SearchState.DONE, over)
        elif await self.preparation.advance(search, operator):
            await self._transitions.enter(search, SearchState.RUNNING)

    async def _sweep_quiet(self) -> None:
        """Sweep searches that have pending jobs but got no report for a while."""
        if time.monotonic() >= self._life_at:
            life, self._life_at = await self._dispatcher.stats.life(), time.monotonic() + LIFE_S
            if self._life not in ("", life):
                self._suspect_losses()
            self._life = life
        quiet_since = time.monotonic() - IDLE_BEFORE_SWEEP_S
        until = time.monotonic() + SWEPT_S
        for id in [id for id, at in self._reported_at.items() if at < quiet_since]:
            fingerprint = self._cache.fingerprints.get(id)
            if time.monotonic() > until:
                return
            if fingerprint is None:
                continue
            waits = fingerprint.in_flight or fingerprint.state in (SearchState.PREPARING, SearchState.DONE)
            if waits or self.finals.awaits(id) or self.verdicts.baselines.awaits(id):
                await self.sweep(await self._cache.get(id))

    def _suspect_losses(self) -> None:
        """Have every search swept at the next tick: jobs in flight may have been lost."""
        self.verdicts.unit_of_work.drop()
        self._reported_at = dict.fromkeys(self._reported_at, 0.0)

    async def sweep(self, search: SearchRecord) -> None:
        """Send lost jobs of a search again, if this coordinator holds it or can take it."""
        if not await self.search_leases.take(search.id):
            return
        self._reported_at[search.id] = time.monotonic()
        if self._workers_for is not None:
            await self._workers_for(search)
        operator = await self._cache.operator(search)
        self._dispatcher.share(search.id, search.owner, search.priority)
        queued = await self._dispatcher.outstanding(search.id) | self._arrived
        self.verdicts.forget(search.id)
        await self.preparation.sweep(search, operator, queued)
        self.finals.forget(search.id)
        if not await self.verdicts.failures.has_reference(
            search
        ):  # A kill came between the seed's verdict and the end.
            return
        for candidate in await self._store.candidates.unfinished(search.id):
            if candidate.state is CandidateState.TRACED:
                await self.verdicts.order_verdicts(JobSubject(search, operator, candidate), queued)
            elif trace_id(candidate.id) not in queued:
                await self.verdicts.trace(JobSubject(search, operator, candidate))
        await self.verdicts.unit_of_work.commit()


def _counted(
    fingerprints: Mapping[str, SearchFingerprint], run: Collection[str], leases: SearchLeases
) -> list[SearchFingerprint]:
    """Return the searches whose candidates count against limits: without those that nobody runs."""
    return [each for id, each in fingerprints.items() if id in run or not leases.named_only]
