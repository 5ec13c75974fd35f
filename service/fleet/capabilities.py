"""Capabilities of the fleet: the devices that living workers judge on, and the queues that they serve."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from archive.records import RemoteWorkerState, SearchRecord
from archive.store import Store
from service.single_flight import SingleFlight
from workers.protocol import Device
from workers.queue import Dispatcher, JobQueue, WorkerStatus, is_host, queues_of

LOOK_AGAIN_S = 1.0
"""Seconds that a lookup is cached. A worker counts as living for many times that after its last heartbeat, and with a
thousand workers a lookup takes as long as a dozen pages."""


@dataclass(frozen=True)
class ServedQueues:
    """Queues that trusted workers serve, and queues that only others serve, which are never reserved."""

    trusted: frozenset[JobQueue] = frozenset()
    others: frozenset[JobQueue] = frozenset()


class Capabilities:
    """Devices that living workers judge on, and queues that they serve, cached for `LOOK_AGAIN_S`."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._single_flight = SingleFlight[None, frozenset[str]](self._look)
        self._devices: frozenset[str] = frozenset()
        self._verified: set[str] = set()
        self._queues = ServedQueues()
        self._compilers: Mapping[str, frozenset[str]] = {}
        self._until = 0.0

    async def devices(self) -> frozenset[str]:
        """Return the names of devices with a living worker, at most `LOOK_AGAIN_S` old.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if time.monotonic() >= self._until:
            await self._single_flight.find(None)
        return self._devices

    async def lacking(self, search: SearchRecord) -> list[str]:
        """Return a search's devices without a living worker.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        served = await self.devices()
        return [device for device in search.devices if device not in served]

    async def unverified(self, names: Iterable[str]) -> frozenset[str]:
        """Return the hardware classes among devices on which no controls have passed yet.

        An elite is the evidence: it takes a confirm by a trusted worker, and each confirm runs its controls first.

        Raises:
            ArchiveError: If the database does not answer.
        """
        untested = {name for name in names if not Device.parse(name).is_tested} - self._verified
        self._verified |= {name for name in untested if await self._store.elites.any_on(name)}
        return frozenset(untested - self._verified)

    async def queues(self) -> ServedQueues:
        """Return the served queues, at most `LOOK_AGAIN_S` old.

        Raises:
            ArchiveError: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        await self.devices()
        return self._queues

    async def compilers(self, target: str) -> frozenset[str]:
        """Return the Triton releases of living workers that trace for a target, at most `LOOK_AGAIN_S` old.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        await self.devices()
        return self._compilers.get(target, frozenset())

    async def _look(self, keys: Collection[None]) -> dict[None, frozenset[str]]:
        workers = await self._dispatcher.workers()
        self._devices = frozenset(worker.device for worker in workers if worker.device)
        self._queues = await self._served(workers)
        tracing = [worker for worker in workers if worker.target and worker.compiler]
        self._compilers = {
            target: frozenset(worker.compiler or "" for worker in tracing if worker.target == target)
            for target in {worker.target or "" for worker in tracing}
        }
        self._until = time.monotonic() + LOOK_AGAIN_S
        return dict.fromkeys(keys, self._devices)

    async def _served(self, workers: Sequence[WorkerStatus]) -> ServedQueues:
        hosts = {}
        if any(is_host(worker.id) for worker in workers):
            hosts = {
                host.id: host.trusted for host in await self._store.remote_workers.list((RemoteWorkerState.ACTIVE,))
            }
        trusted: set[JobQueue] = set()
        others: set[JobQueue] = set()
        for worker in workers:
            queues = queues_of(worker.target, worker.device, worker.compiler)
            if not is_host(worker.id) or hosts.get(worker.id):
                trusted.update(queues)
            elif worker.id in hosts:
                others.update(queue for queue in queues if not queue.reserved)
        return ServedQueues(frozenset(trusted), frozenset(others - trusted))
