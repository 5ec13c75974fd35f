"""What is served: whether anybody is there to judge on a device, or to take the jobs of a lane."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from archive.records import RemoteWorkerState, SearchRecord
from archive.store import Store
from service.single_flight import SingleFlight
from workers.queue import Dispatcher, JobQueue, WorkerStatus, is_host, lanes_of

LOOK_AGAIN_S = 1.0
"""How long what was seen is told again. A worker counts as living for many times that after its last sign of life, and
with a thousand of them a look takes as long as a dozen pages."""


@dataclass(frozen=True)
class ServedQueues:
    """Lanes whose jobs trusted workers take, and those whose jobs only others take: never reserved ones."""

    trusted: frozenset[JobQueue] = frozenset()
    others: frozenset[JobQueue] = frozenset()


class Capabilities:
    """The devices that some living worker judges on, and the lanes that some take jobs of."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._single_flight = SingleFlight[None, frozenset[str]](self._look)
        self._devices: frozenset[str] = frozenset()
        self._lanes = ServedQueues()
        self._until = 0.0

    async def devices(self) -> frozenset[str]:
        """Their names, as they were `LOOK_AGAIN_S` ago or later.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if time.monotonic() >= self._until:
            await self._single_flight.find(None)
        return self._devices

    async def lacking(self, search: SearchRecord) -> list[str]:
        """Devices of a search that are not served.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        served = await self.devices()
        return [device for device in search.devices if device not in served]

    async def lanes(self) -> ServedQueues:
        """Lanes that are served, as they were `LOOK_AGAIN_S` ago or later.

        Raises:
            ArchiveError: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        await self.devices()
        return self._lanes

    async def _look(self, keys: Collection[None]) -> dict[None, frozenset[str]]:
        workers = await self._dispatcher.workers()
        self._devices = frozenset(worker.device for worker in workers if worker.device)
        self._lanes = await self._served(workers)
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
            lanes = lanes_of(worker.target, worker.device)
            if not is_host(worker.id) or hosts.get(worker.id):
                trusted.update(lanes)
            elif worker.id in hosts:
                others.update(lane for lane in lanes if not lane.reserved)
        return ServedQueues(frozenset(trusted), frozenset(others - trusted))
