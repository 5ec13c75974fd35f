"""Page of workers: their state, trust in remote ones, and the way to add one."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from archive.records import RemoteWorker
from service.api.dependencies import Id, Running, needs
from service.coordinator import Coordinator
from service.dashboard.live import stream
from service.dashboard.rendering import Fragment, HtmlPage, respond
from service.dashboard.routing import Framed, Sent, pages, see_other
from service.security.scopes import Scope
from workers.queue import WorkerStatus

router = pages()


@dataclass(frozen=True)
class WorkerList(Fragment):
    """Workers with a recent heartbeat, and remote workers.

    Attributes:
        workers: Workers with a recent heartbeat.
        hosts: Remote workers.
        queues: Numbers of waiting jobs by kind of queue.
        unverified: Hardware classes among them on which no controls have passed yet.
    """

    template = "parts/workers.html"
    name = "workers"

    workers: tuple[WorkerStatus, ...]
    hosts: tuple[RemoteWorker, ...]
    queues: tuple[tuple[str, int], ...]
    unverified: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WorkersPage(HtmlPage):
    """All workers, and instructions to add one."""

    template = "workers.html"
    section = "/workers"
    heading = "Workers"
    live = True
    stream = "/workers/live"

    workers: WorkerList
    address: str


@router.get("/workers", dependencies=[needs(Scope.READ)])
async def show(running: Running, frame: Framed, request: Request) -> Response:
    """Show all workers."""
    return respond(WorkersPage(await load_workers(running), str(request.base_url).rstrip("/")), frame)


@router.get("/workers/live", response_class=EventSourceResponse, dependencies=[needs(Scope.READ)])
async def live(running: Running, frame: Framed) -> AsyncIterator[ServerSentEvent]:
    """Send updates of the workers."""

    async def load() -> tuple[WorkerList]:
        return (await load_workers(running),)

    async for update in stream(running.events, "/workers", load, frame):
        yield update


@router.post("/workers/{id}/drain", dependencies=[needs(Scope.STEER)])
async def drain(id: Id, running: Running) -> Response:
    """Drain a remote worker: it finishes its job, takes no more and leaves."""
    await running.remote_workers.drain(id)
    return see_other("/workers")


@router.post("/workers/{id}/trust", dependencies=[needs(Scope.ADMIN)])
async def trust(id: Id, running: Running, sent: Sent) -> Response:
    """Trust a remote worker, or stop trusting it."""
    await running.remote_workers.trust(id, sent.text("trusted") == "yes")
    return see_other("/workers")


@router.post("/workers/{id}/revoke", dependencies=[needs(Scope.ADMIN)])
async def revoke(id: Id, running: Running) -> Response:
    """Revoke a remote worker's access for good."""
    await running.remote_workers.revoke(id)
    return see_other("/workers")


async def load_workers(running: Coordinator) -> WorkerList:
    """Load the present workers and queue lengths."""
    queues: Counter[str] = Counter()
    for queue, depth in (await running.queue_depth()).items():
        queues[queue.rpartition(":")[0].removeprefix("reef:jobs:")] += depth
    workers = sorted(await running.workers(), key=lambda worker: worker.id)
    hosts = await running.remote_workers.list()
    devices = filter(None, (*(worker.device for worker in workers), *(host.device for host in hosts)))
    return WorkerList(
        workers=tuple(workers),
        hosts=tuple(hosts),
        queues=tuple(sorted(queues.items())),
        unverified=await running.capabilities.unverified(devices),
    )
