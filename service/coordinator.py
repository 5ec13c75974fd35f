"""The coordinator: archive, queue, events, evolution and local workers wired together. `serve` and `search` run one.

Without settings everything is embedded: SQLite, a supervised Redis-protocol server and workers on this machine. With
addresses given, the same code runs on PostgreSQL and Redis.
"""

import asyncio
import contextlib
import functools
import importlib.metadata
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from uuid6 import uuid7

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewSearch, SearchRecord, SearchState
from archive.store import Store
from kernelreef.states import ACTIVE, OPEN
from kernelreef.validation import nearest
from service.embedded import EmbeddedServer
from service.emitters import EMITTERS
from service.emitters.llm.strategies import STRATEGIES
from service.errors import Conflict, InvalidInput, NotFound
from service.evaluation.activity import describe_activity
from service.events import EventBus, SearchChanged
from service.fleet.capabilities import Capabilities
from service.fleet.devices import DEVICES, choose_devices, local_cards, may_measure, names_card
from service.fleet.executor_template import ExecutorTemplate
from service.fleet.missing_workers import describe_missing
from service.fleet.pool import WorkerPool, WorkerStart
from service.fleet.remote_workers import RemoteWorkers, address_for_hosts
from service.llm_gateway.gateway import LlmGateway
from service.metrics import METRICS
from service.open_archive import make_data_dir, open_archive
from service.operators.catalogue import load_catalogue, parse_operator
from service.operators.naming import find_operator
from service.operators.shapes import all_shapes
from service.requests import SearchRequest
from service.scheduler.backpressure import CandidateLimits
from service.scheduler.changes import require_room
from service.scheduler.event_bus import RedisBus
from service.scheduler.evolution import Evolution
from service.scheduler.leases import SearchLeases
from service.security.authentication import Authentication
from service.security.certificates import certified
from service.settings import Settings
from service.single_flight import SingleFlight
from workers.protocol import Device, Operator, release_of
from workers.queue import Dispatcher, LeaseBroker, QueueUnavailable, WorkerStatus

HELD_OUT_BITS = 63
"""Bits of the seed that held-out shapes are drawn from. It is secret, so that no candidate is made for them."""
NO_QUEUE = "redis://127.0.0.1:0"
"""Address without a server: the queue of a coordinator that only reads an embedded archive."""
STORED_UNCHANGED = {"evaluations", "seed", "priority", "name", "tags", "notes", "admit", "compiler"}
"""Fields of a request that its search has as they are."""
AXES_VERSION = 1
"""Version of the axes of new searches; raised when edges change."""


class Coordinator:
    """One running service."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        dispatcher: Dispatcher,
        pool: WorkerPool,
        *,
        named_only: bool = False,
    ) -> None:
        self.settings = settings
        self.store = store
        self.events = EventBus(observe=METRICS.published)
        self._dispatcher = dispatcher
        self.pool = pool
        self._catalogue = load_catalogue()
        self.llm_gateway = LlmGateway(store, settings.data_dir)
        self.authentication = Authentication(store)
        self.versions = SingleFlight(store.views.versions)
        self.capabilities = Capabilities(store, dispatcher)
        self.describe_missing = functools.partial(describe_missing, self.capabilities, dispatcher, pool=pool)
        self.describe_activity = functools.partial(describe_activity, store, dispatcher)
        self._evolution = Evolution(
            store,
            dispatcher,
            self.events,
            limits=CandidateLimits(settings.in_flight_per_search, settings.in_flight_per_owner, settings.in_flight),
            search_leases=SearchLeases(store, alone=settings.alone, named_only=named_only),
            workers_for=self._require_workers,
            ask=self.llm_gateway,
        )
        self.intake = self._evolution.intake
        broker = LeaseBroker(dispatcher.redis_url)
        self.remote_workers = RemoteWorkers(store, dispatcher, broker, self._evolution.spot_checks, self.events)
        self._resources = contextlib.AsyncExitStack()

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        named_only: bool = False,
        devices: Sequence[str] = (),
        template: ExecutorTemplate | None = None,
    ) -> Self:
        """Start everything that the settings ask for, and continue every open search.

        Args:
            settings: Settings of the service.
            named_only: True if it runs only searches that are submitted or resumed through it.
            devices: Devices that a search is about to name: their workers start before the archive is open.
            template: Template of its workers' executors, which may run already; it is closed in the end.

        Raises:
            ServiceError: If the queue or another dependency does not start.
        """
        async with contextlib.AsyncExitStack() as stack:
            make_data_dir(settings)
            redis_url = settings.queue
            if redis_url is None:
                redis_url = (await stack.enter_async_context(_embedded(settings))).url
            pool = _pool(redis_url, settings, template)
            stack.push_async_callback(pool.close)
            await _start_workers(pool, devices, settings)
            store = await stack.enter_async_context(open_archive(settings))
            dispatcher = Dispatcher(redis_url, alone=settings.alone)
            stack.push_async_callback(dispatcher.close)
            coordinator = cls(settings, store, dispatcher, pool, named_only=named_only)
            stack.push_async_callback(coordinator.llm_gateway.close)
            if settings.alone:
                await _cancel_old_jobs(store, dispatcher)
            bus = RedisBus(redis_url, coordinator.events)
            await bus.start()
            stack.push_async_callback(bus.close)
            coordinator._evolution.start()
            stack.push_async_callback(coordinator._evolution.stop)
            coordinator.remote_workers.start()
            stack.push_async_callback(coordinator.remote_workers.stop)
            coordinator._resources = stack.pop_all()
            return coordinator

    @classmethod
    async def reading(cls, settings: Settings) -> Self:
        """Open the archive for reading only. Nothing is started; operations that need the queue raise `Unavailable`.

        Raises:
            ArchiveError: If the database does not answer.
        """
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(open_archive(settings))
            queue = settings.queue or NO_QUEUE
            dispatcher = Dispatcher(queue, alone=settings.alone)
            stack.push_async_callback(dispatcher.close)
            coordinator = cls(settings, store, dispatcher, WorkerPool(queue, size=0))
            stack.push_async_callback(coordinator.llm_gateway.close)
            coordinator._resources = stack.pop_all()
            return coordinator

    async def close(self) -> None:
        """Stop everything; open searches continue at the next start."""
        await self._resources.aclose()

    async def submit(self, request: SearchRequest, id: str | None = None, *, owner: str = "") -> SearchRecord:
        """Store a search and start it.

        Args:
            request: Search to run.
            id: Id of the search, if already chosen. A second call with the same id changes nothing.
            owner: Id of the caller's token; empty for the machine's own user.

        Raises:
            InvalidInput: If a name or the operator is invalid; names the field.
        """
        operator = _require_seed(await self._resolve(request))
        devices = await _devices(request.devices, self.settings, self.capabilities)
        await _require_compiler(request.compiler, devices[0], self.settings, self.capabilities)
        for name in request.emitters:
            _known(name, EMITTERS, "emitters")
        axes = request.axes or DEFAULT_AXES
        for name in axes:
            _known(name, DESCRIPTORS, "axes")
        terms = _terms(self.llm_gateway, request)
        await self.store.operators.put(operator.digest, operator.name, operator.model_dump_json())
        shapes = all_shapes(operator, secrets.randbits(HELD_OUT_BITS))
        search = await self._create(
            NewSearch(
                id=id or str(uuid7()),
                operator=operator.digest,
                operator_name=operator.name,
                devices=tuple(device.name for device in devices),
                emitters=tuple(request.emitters),
                axes=tuple(DESCRIPTORS[name].axis for name in axes),
                axes_version=AXES_VERSION,
                shapes=tuple(shape.model_dump(mode="json") for shape in shapes),
                llm=terms,
                stop=request.stop.model_dump(mode="json", exclude_none=True) if request.stop else None,
                selection=request.selection.model_dump(mode="json"),
                owner=owner,
                **request.model_dump(include=STORED_UNCHANGED),
            )
        )
        await self._evolution.search_leases.take(search.id)  # The next tick, within 0.1 s, starts it.
        return search

    async def _create(self, new: NewSearch) -> SearchRecord:
        try:
            return await self.store.searches.create(new)
        except RecordConflict:
            # An earlier attempt of this request created it, and its answer was lost.
            return await self._find(new.id)

    async def pause(self, search_id: str) -> SearchRecord:
        """Stop proposing; candidates in flight still count.

        Raises:
            NotFound: If there is no such search.
            Conflict: If it is not active.
        """
        return await self._move(search_id, SearchState.PAUSED, ACTIVE)

    async def resume(self, search_id: str) -> SearchRecord:
        """Continue a paused search, or a done one whose limits leave room. An active search stays as it is.

        Raises:
            NotFound: If there is no such search.
            Conflict: If it was stopped or failed, or is done and its limits leave no room. What a done search still
                lacks, such as examinations, is continued all the same.
            InvalidInput: If it needs a card that no worker can have.
        """
        search = await self._find(search_id)
        await _devices(search.devices, self.settings, self.capabilities)
        if search.finishing:
            await self._evolution.search_leases.take(search_id)
        if search.state is SearchState.DONE:
            await require_room(self.store, search)
        if search.state not in ACTIVE:
            operator = Operator.model_validate_json((await self.store.operators.get(search.operator)).document)
            prepared = await self._evolution.preparation.is_complete(search, operator)
            state = SearchState.RUNNING if prepared else SearchState.PREPARING
            search = await self._move(search_id, state, (SearchState.PAUSED, SearchState.DONE))
        await self._evolution.search_leases.take(search_id)
        return search

    async def stop(self, search_id: str) -> SearchRecord:
        """End a search for good; its results stay.

        Raises:
            NotFound: If there is no such search.
            Conflict: If it has ended already.
        """
        search = await self._move(search_id, SearchState.STOPPED, OPEN)
        await self.llm_gateway.manual.withdraw(search_id)
        with contextlib.suppress(QueueUnavailable):  # The coordinator that holds the search drops its jobs too.
            await self._dispatcher.cancel(search_id)
        return search

    def operators(self) -> Mapping[str, Operator]:
        """Return the catalogue's operators by name."""
        return self._catalogue

    async def workers(self) -> list[WorkerStatus]:
        """Return the status of each recently seen worker."""
        return await self._dispatcher.workers()

    def queue_for_hosts(self) -> tuple[str, str | None]:
        """Return the queue's address for remote workers, and the PEM certificates that verify it, if configured.

        Raises:
            Conflict: If only this machine can reach the queue.
        """
        where = self.settings.worker_redis_url or self._dispatcher.redis_url
        return address_for_hosts(where), self.settings.redis_ca.read_text() if self.settings.redis_ca else None

    async def queue_depth(self) -> dict[str, int]:
        """Return the number of jobs queued or leased, by queue."""
        return await self._dispatcher.stats.depth()

    async def queue_ages_s(self) -> dict[str, float]:
        """Return the age in seconds of the oldest queued or leased job, by queue."""
        return await self._dispatcher.stats.ages_s()

    async def _resolve(self, request: SearchRequest) -> Operator:
        if not isinstance(request.operator, str):
            return parse_operator(request.operator)
        try:
            return await find_operator(self.store, self._catalogue, request.operator)
        except NotFound as error:
            hint = nearest(request.operator, self._catalogue) or f"; known: {', '.join(self._catalogue)}"
            raise InvalidInput(f"there is no operator '{request.operator}'{hint}", "operator") from error

    async def _require_workers(self, search: SearchRecord) -> None:
        for name in search.devices:
            await self.pool.require(name)

    async def _find(self, search_id: str) -> SearchRecord:
        try:
            return await self.store.searches.get(search_id)
        except RecordNotFound as error:
            raise NotFound(f"there is no search {search_id}") from error

    async def _move(self, search_id: str, state: SearchState, only_from: tuple[SearchState, ...]) -> SearchRecord:
        search = await self._find(search_id)
        try:
            search = await self.store.searches.set_state(search_id, state, only_from=only_from)
        except RecordConflict as error:
            raise Conflict(f"the search is {search.state.value}; it cannot become {state.value}") from error
        self.events.publish(SearchChanged(search=search.id, state=state.value, reason=""))
        return search


async def _cancel_old_jobs(store: Store, dispatcher: Dispatcher) -> None:
    """Cancel the jobs of open searches, so that workers that died with the previous process do not count against them.

    Delivered reports stay. Only for a coordinator that is alone with its queue.
    """
    for mark in await store.search_leases.fingerprints():
        await dispatcher.cancel(mark.id)


def _pool(queue: str, settings: Settings, template: ExecutorTemplate | None) -> WorkerPool:
    output = settings.workers_log
    return WorkerPool(
        queue,
        size=settings.local_workers,
        data=settings.measured_dir,
        sharers=settings.benches_per_card,
        start=WorkerStart(output=output, template=template or ExecutorTemplate(output)),
    )


async def _start_workers(pool: WorkerPool, names: Sequence[str], settings: Settings) -> None:
    """Start the workers of some devices, if this machine can have them; a submission explains why it cannot."""
    if not names or not settings.local_workers:
        return
    cards = await asyncio.to_thread(local_cards) if any(map(may_measure, names)) else ()
    with contextlib.suppress(InvalidInput):
        for device in choose_devices(names, cards=cards, served=(), closed=settings.closed):
            await pool.require(device.name)


def _embedded(settings: Settings) -> EmbeddedServer:
    certificate = settings.tls_certificate if settings.worker_redis_url else None
    tls = None if certificate is None else certified(certificate, settings.tls_key)
    return EmbeddedServer(settings.data_dir / "redis", public=settings.worker_redis_url, tls=tls)


def _require_seed(operator: Operator) -> Operator:
    if not operator.seeds:
        reason = (
            f"'{operator.name}' has no seed kernel to start from; write one with `reef operators seed SPEC > seed.py` "
            'and add seeds = ["seed.py"] to the spec'
        )
        raise InvalidInput(reason, "operator.seeds")
    return operator


def _known(name: str, table: Collection[str], field: str) -> None:
    if name not in table:
        raise InvalidInput(f"'{name}' is not one of: {', '.join(table)}{nearest(name, table)}", field)


def _terms(llm_gateway: LlmGateway, request: SearchRequest) -> dict[str, Any] | None:
    """Check the LLM settings of a search, and return them as stored.

    Raises:
        InvalidInput: If a name is unknown, a price is missing, or only one of `llm` and its emitter is given.
    """
    asking = [name for name in request.emitters if EMITTERS[name].asks and not EMITTERS[name].receives]
    if request.llm is None:
        if asking:
            known = ", ".join(status.name for status in llm_gateway.backends.statuses())
            detail = f"the emitter '{asking[0]}' needs backends; {llm_gateway.backends.file} has: {known}"
            raise InvalidInput(detail, "llm")
        return None
    receiving = [name for name in request.emitters if EMITTERS[name].receives]
    for named, emitter, having in (
        (request.llm.backends, "llm", asking),
        (request.llm.agents, "agent", receiving),
    ):
        if named and not having:
            detail = f"no emitter would ask the backend '{named[0]}'; add {emitter} to: "
            raise InvalidInput(detail + ", ".join(request.emitters), "emitters")
    if asking and not request.llm.backends:
        raise InvalidInput(f"the emitter '{asking[0]}' needs backends besides agents", "llm.backends")
    for name in request.llm.strategies:
        _known(name, STRATEGIES, "llm.strategies")
    llm_gateway.require(request.llm)
    return request.llm.model_dump(mode="json")


def _installed_compiler() -> str:
    """Return the release of the Triton that this machine's own workers have; empty without one."""
    try:
        return release_of(importlib.metadata.version("triton"))
    except importlib.metadata.PackageNotFoundError:
        return ""


async def _require_compiler(
    compiler: str | None, device: Device, settings: Settings, capabilities: Capabilities
) -> None:
    """Require that a worker can have a compiler: one that runs now, one of this machine's, or one that may join.

    Raises:
        InvalidInput: If none can; names the compiler of this machine.
    """
    if compiler is None:
        return
    if device.kind == "recorded":
        raise InvalidInput(f"{device.name} is a recording: nothing is compiled for it", "compiler")
    here = _installed_compiler()
    known = {here, *await capabilities.compilers(device.target)}
    if settings.closed and settings.local_workers and compiler not in known:
        raise InvalidInput(f"no worker has Triton {compiler}; this machine's workers have {here or 'none'}", "compiler")


async def _devices(names: Sequence[str], settings: Settings, capabilities: Capabilities) -> list[Device]:
    """Read a request's devices.

    A search traces each candidate once, so its devices must share one target; a recording stands alone.
    """
    own = settings.local_workers > 0
    closed = own and settings.closed
    matters = any(map(may_measure if closed else names_card, names))
    cards = await asyncio.to_thread(local_cards) if own and matters else ()
    served = await capabilities.devices() if matters else frozenset()
    devices = choose_devices(names, cards=cards, served=served, closed=closed)
    targets = {device.traced_at for device in devices}
    if len(targets) != 1:
        raise InvalidInput(f"a search has one target; these devices need {', '.join(sorted(targets))}", DEVICES)
    return devices
