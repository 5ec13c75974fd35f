"""Workers: list, join, and control remote workers."""

from fastapi import APIRouter, Response, status

from archive.records import RemoteWorker
from service.api.dependencies import Caller, Id, Running, needs
from service.api.paging import Cursor, Limit, Page, whole
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
    """List workers with a recent heartbeat, and remote workers that are admitted or suspended, by id."""
    living = {worker.id: worker for worker in await running.workers()}
    hosts = {host.id: host for host in await running.remote_workers.list()}
    seen = {*(worker.device for worker in living.values()), *(host.device for host in hosts.values())}
    unverified = await running.capabilities.unverified(filter(None, seen))
    return whole(
        living.keys() | hosts.keys(),
        cursor,
        limit,
        str,
        lambda id: Worker.of(living.get(id), hosts.get(id), unverified),
    )


@router.post("/join", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.WORKER)])
async def join(body: JoinRequest, running: Running, caller: Caller, response: Response) -> JoinResponse:
    """Admit a worker. It gets an id and a user of the queue that reaches only its own keys."""
    if body.target is None and body.device is None:
        raise InvalidInput("give a target to trace for, a device to judge on, or both", "target")
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
    """Return the state of a remote worker, which asks for it after its credential was refused."""
    host = await running.remote_workers.get(id)
    return RemoteWorkerStatus(worker=id, state=host.state.value, reason=host.reason)


@router.post("/{id}/drain", dependencies=[needs(Scope.STEER)])
async def drain(id: Id, running: Running) -> Worker:
    """Drain a worker: it finishes its job, takes no more and leaves."""
    return await _shown(running, await running.remote_workers.drain(id))


@router.post("/{id}/revoke", dependencies=[needs(Scope.ADMIN)])
async def revoke(id: Id, running: Running, body: RevokeRequest | None = None) -> Worker:
    """Revoke a worker for good: its connections end at once, and its jobs go to others."""
    return await _shown(running, await running.remote_workers.revoke(id, body.reason if body else ""))


@router.post("/{id}/trust", dependencies=[needs(Scope.ADMIN)])
async def trust(id: Id, running: Running, body: TrustRequest | None = None) -> Worker:
    """Trust a worker, or stop trusting it. A trusted worker may confirm, and its reports count without repetition."""
    return await _shown(running, await running.remote_workers.trust(id, body is None or body.trusted))


async def _shown(running: Running, host: RemoteWorker) -> Worker:
    living = {worker.id: worker for worker in await running.workers()}
    unverified = await running.capabilities.unverified(filter(None, [host.device]))
    return Worker.of(living.get(host.id), host, unverified)
