"""A host with a credential of its own, on a real server."""

import hashlib
from datetime import UTC, datetime

from workers.queue import BrokerWorker, LeaseBroker, QueueCredential, RemoteLeaseClient, WorkerStatus, queues_of

HOST = "01990000-0000-7000-8000-000000000001"
OTHER = "01990000-0000-7000-8000-000000000002"
PASSWORD = "a password of its own"


def seat(
    worker: str = HOST, *, target: str | None = "sm_90", device: str | None = None, trusted: bool = False
) -> BrokerWorker:
    queues = queues_of(target, device)
    return BrokerWorker(worker, queues if trusted else tuple(queue for queue in queues if not queue.reserved))


async def admit(porter: LeaseBroker, worker: str = HOST) -> None:
    await porter.admit(worker, hashlib.sha256(PASSWORD.encode()).hexdigest())


def lessee(redis_url: str, worker: str = HOST, *, standing: str = "active") -> RemoteLeaseClient:
    """The host's side; `redis_url` is the service's, whose credential it must not use."""
    address = f"redis://{redis_url.rpartition('@')[2]}"
    status = WorkerStatus(id=worker, target="sm_90", kinds=("trace",), seen=datetime.now(UTC))
    return RemoteLeaseClient(QueueCredential(worker, address, PASSWORD), lambda: standing, status=status)


async def serve(porter: LeaseBroker, *seats: BrokerWorker) -> None:
    """One round of the porter."""
    for sat, ask in await porter.asks(seats):
        await porter.answer(sat, ask)
    await porter.keep(seats)
