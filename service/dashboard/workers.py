"""Workers: who is there, what each does, whom to trust, and how another one joins."""

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
    """Workers that gave a sign of life lately, and hosts that joined. `backends` are jobs by stream, searches left out."""

    template = "parts/crew.html"
    name = "crew"

    workers: tuple[WorkerStatus, ...]
    hosts: tuple[RemoteWorker, ...]
    queues: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class WorkersPage(HtmlPage):
    """Workers, and how to add one."""

    template = "workers.html"
    section = "/workers"
    heading = "Workers"
    live = True
    stream = "/workers/live"

    crew: WorkerList
    address: str


@router.get("/workers", dependencies=[needs(Scope.READ)])
async def show(running: Running, frame: Framed, request: Request) -> Response:
    """Everybody who is there."""
    return respond(WorkersPage(await load_crew(running), str(request.base_url).rstrip("/")), frame)


@router.get("/workers/live", response_class=EventSourceResponse, dependencies=[needs(Scope.READ)])
async def live(running: Running, frame: Framed) -> AsyncIterator[ServerSentEvent]:
    """Updates of who is there."""

    async def load() -> tuple[WorkerList]:
        return (await load_crew(running),)

    async for update in stream(running.events, "/workers", load, frame):
        yield update


@router.post("/workers/{id}/drain", dependencies=[needs(Scope.STEER)])
async def drain(id: Id, running: Running) -> Response:
    """Have a host finish its job, take no more and leave."""
    await running.remote_workers.drain(id)
    return see_other("/workers")


@router.post("/workers/{id}/trust", dependencies=[needs(Scope.ADMIN)])
async def trust(id: Id, running: Running, sent: Sent) -> Response:
    """Vouch for a host, or no longer."""
    await running.remote_workers.trust(id, sent.text("trusted") == "yes")
    return see_other("/workers")


@router.post("/workers/{id}/revoke", dependencies=[needs(Scope.ADMIN)])
async def revoke(id: Id, running: Running) -> Response:
    """Shut a host out for good."""
    await running.remote_workers.revoke(id)
    return see_other("/workers")


async def load_crew(running: Coordinator) -> WorkerList:
    """Who is there now."""
    queues: Counter[str] = Counter()
    for queue, depth in (await running.queue_depth()).items():
        queues[queue.rpartition(":")[0].removeprefix("reef:jobs:")] += depth
    return WorkerList(
        workers=tuple(sorted(await running.workers(), key=lambda worker: worker.id)),
        hosts=tuple(await running.remote_workers.list()),
        queues=tuple(sorted(queues.items())),
    )
