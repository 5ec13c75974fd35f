"""Workers: who is there to trace and to judge, joining, and how those stand that joined."""

from fastapi import APIRouter, Response, status

from archive.records import RemoteWorker
from service.api.dependencies import Caller, Id, Running, needs
from service.api.paging import Cursor, Limit, Page, decode, page
from service.api.problems import PROBLEMS
from service.api.worker_schemas import (
    JoinRequest,
    JoinResponse,
    RemoteWorkerStatus,
    RevokeRequest,
    TrustRequest,
    Worker,
)
from service.errors import InvalidInput
from service.security.scopes import Scope

router = APIRouter(prefix="/workers", tags=["workers"], responses=PROBLEMS)


@router.get("", dependencies=[needs(Scope.READ)])
async def find(running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[Worker]:
    """Workers that were seen lately, and hosts that may work or are suspended, by id."""
    after = decode(cursor, str)
    living = {worker.id: worker for worker in await running.workers()}
    hosts = {host.id: host for host in await running.remote_workers.list()}
    ids = sorted(id for id in living.keys() | hosts.keys() if after is None or id > after[0])
    return page(ids, limit, lambda id: (id,), lambda id: Worker.of(living.get(id), hosts.get(id)))


@router.post("/join", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.WORKER)])
async def join(body: JoinRequest, running: Running, caller: Caller, response: Response) -> JoinResponse:
    """Let a worker in. It gets an id and a user of the queue that reaches its own keys only."""
    if body.target is None and body.device is None:
        raise InvalidInput("say what it traces for, what it judges on, or both", "target")
    redis_url, ca = running.queue_for_hosts()
    admission = await running.remote_workers.join(body.application(), caller.token)
    response.headers["Cache-Control"] = "no-store"
    host = admission.host
    return JoinResponse(
        worker=host.id,
        protocol_version=host.protocol_version,
        redis_url=redis_url,
        password=admission.password,
        ca=ca,
    )


@router.get("/{id}/status", dependencies=[needs(Scope.WORKER)])
async def worker_status(id: Id, running: Running) -> RemoteWorkerStatus:
    """Show the state of a joined worker; one asks whose credential is refused."""
    host = await running.remote_workers.get(id)
    return RemoteWorkerStatus(worker=id, state=host.state.value, reason=host.reason)


@router.post("/{id}/drain", dependencies=[needs(Scope.STEER)])
async def drain(id: Id, running: Running) -> Worker:
    """Have a worker finish its job, take no more and leave."""
    return await _shown(running, await running.remote_workers.drain(id))


@router.post("/{id}/revoke", dependencies=[needs(Scope.ADMIN)])
async def revoke(id: Id, running: Running, body: RevokeRequest | None = None) -> Worker:
    """Shut a worker out for good: its connections end at once, and its jobs go to others."""
    return await _shown(running, await running.remote_workers.revoke(id, body.reason if body else ""))


@router.post("/{id}/trust", dependencies=[needs(Scope.ADMIN)])
async def trust(id: Id, running: Running, body: TrustRequest | None = None) -> Worker:
    """Vouch for a worker, or no longer. A trusted one may confirm, and what it says counts without being repeated."""
    return await _shown(running, await running.remote_workers.trust(id, body is None or body.trusted))


async def _shown(running: Running, host: RemoteWorker) -> Worker:
    living = {worker.id: worker for worker in await running.workers()}
    return Worker.of(living.get(host.id), host)
