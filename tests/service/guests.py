"""A host beside a workbench: it joins, asks and reports over its own credential, and says what a test decides."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from archive.records import RemoteWorker, SearchRecord, SearchState
from service.fleet.remote_workers import JoinApplication, RemoteWorkers
from tests.service.workbench import Answers, Workbench
from workers.errors import Dismissed
from workers.protocol import PROTOCOL_VERSION, AnyReport, Job
from workers.queue import (
    Lease,
    LeaseBroker,
    LeaseClient,
    QueueCredential,
    QueueUnavailable,
    RemoteLeaseClient,
    WorkerStatus,
)

JOINED: list["Guest"] = []
"""Guests to see off after a test."""
ENDED = (SearchState.DONE, SearchState.FAILED, SearchState.STOPPED)


@dataclass
class Guest:
    """One host.

    Attributes:
        answers: What it says.
        twist: What becomes of a report on its way.
        took: The jobs that it was handed.
        dismissed: Whether it was shut out while it worked.
    """

    bench: Workbench
    remote_workers: RemoteWorkers
    id: str
    lessee: RemoteLeaseClient
    answers: Answers
    twist: Callable[[Job, AnyReport], AnyReport] = lambda job, report: report
    took: list[Job] = field(default_factory=list)
    dismissed: bool = False

    @classmethod
    async def join(cls, bench: Workbench, device: str | None, *, target: str | None = "sm_90") -> "Guest":
        remote_workers = RemoteWorkers(
            bench.store, bench.dispatcher, LeaseBroker(bench.redis_url), bench.evolution.spot_checks, bench.events
        )
        admission = await remote_workers.join(application(device=device, target=target), None)
        address = f"redis://{bench.redis_url.rpartition('@')[2]}"
        credential = QueueCredential(admission.host.id, address, admission.password)
        status = WorkerStatus(id=admission.host.id, target=target, device=device, seen=datetime.now(UTC))
        lessee = RemoteLeaseClient(credential, lambda: "revoked", status=status)
        JOINED.append(cls(bench, remote_workers, admission.host.id, lessee, bench.answers))
        return JOINED[-1]

    async def leave(self) -> None:
        """Let go of every connection."""
        with contextlib.suppress(QueueUnavailable):
            self.lessee.depart()
        await self.remote_workers.stop()

    async def lease(self) -> Lease | None:
        """Ask for a job, with somebody there who answers."""
        asking = asyncio.create_task(asyncio.to_thread(self.lessee.lease, 150))
        while not asking.done():
            await self.remote_workers.serve()
            await asyncio.sleep(0.02)
        return await asking

    async def work_once(self) -> bool:
        """Do one job, if there is one."""
        lease = await self.lease()
        if lease is None:
            return False
        self.took.append(lease.job)
        report = self.answers.to(lease.job).model_copy(update={"worker": self.id})
        self.lessee.report(lease, self.twist(lease.job, report))
        return True

    async def work(self) -> None:
        """Do what is to be had; nothing more once it is shut out."""
        try:
            while not self.dismissed and await self.work_once():
                pass
        except Dismissed:
            self.dismissed = True

    async def record(self) -> RemoteWorker:
        """How it stands, with all that was counted."""
        self.remote_workers._keep_at = 0.0
        await self.remote_workers.serve()
        return await self.bench.store.remote_workers.get(self.id)

    def trusted_work(self) -> None:
        """Have the trusted worker do what only it may do, and leave the rest to hosts."""
        bench = self.bench
        for device in bench.devices:
            worker = LeaseClient(bench.redis_url, "w", target="sm_90", device=device)
            worker._queues = tuple(queue for queue in worker._queues if queue.reserved or self.dismissed)
            while (lease := worker.lease(block_ms=0)) is not None:
                worker.report(lease, bench.answers.to(lease.job))
            worker.depart()

    async def run(self, search: SearchRecord, *, rounds: int = 60) -> SearchRecord:
        """Tick until a search ends; the trusted worker does nothing that the host may do."""
        for _ in range(rounds):
            await self.bench.evolution.tick()
            await self.work()
            await asyncio.to_thread(self.trusted_work)
            search = await self.bench.store.searches.get(search.id)
            if search.state in ENDED and not search.finishing:
                return search
        raise AssertionError(f"the search is still {search.state} after {rounds} rounds")


def application(
    *,
    device: str | None = "model:sm_90",
    target: str | None = "sm_90",
    protocol_versions: tuple[int, ...] = (PROTOCOL_VERSION,),
) -> JoinApplication:
    return JoinApplication("rig", protocol_versions, target, device, {"triton": "3.7.1"}, 8, "pid")
