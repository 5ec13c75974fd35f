"""Remote workers: registration with a token, their states, and the loop that answers their requests.

The archive holds the truth about remote workers. Redis users are created from it and compared with it every few
seconds: a Redis that lost its data admits them again, and one that missed a revocation still applies it.
"""

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

import structlog
from uuid6 import uuid7

from archive.errors import ArchiveError, RecordConflict, RecordNotFound
from archive.records import NewRemoteWorker, RemoteWorker, RemoteWorkerState
from archive.store import Store
from service.errors import Conflict, NotFound
from service.evaluation.spot_checks import SpotChecks
from service.events import EventBus, WorkerChanged
from service.tasks import end
from workers.protocol import PROTOCOL_VERSION, release_of
from workers.queue import BrokerWorker, Dispatcher, LeaseBroker, LeaseRequest, QueueUnavailable, queues_of

SPOKEN = (PROTOCOL_VERSION,)
"""Versions of the protocol that this service supports."""
SERVE_S = 0.1
"""Seconds between polls for requests of remote workers: a tenth of the shortest job."""
KEEP_S = 3.0
"""Seconds between renewals of remote workers' leases: five may fail before one lapses."""
REFRESH_S = 2.0
"""Seconds between comparisons of archive and Redis users: the delay of changes by other coordinators."""
AWAY = timedelta(hours=24)
"""Silence after which a remote worker has left, and its credential is revoked."""
GONE = timedelta(seconds=60)
"""Silence after which a draining remote worker has left."""
MOST_DISAGREED = 3
"""Reports that differ from trusted workers' before a suspension: one may come from a transient hardware fault."""
WORKING = (RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING)
STAYING = (*WORKING, RemoteWorkerState.SUSPENDED)
PAUSE_S = 1.0
"""Seconds until the loop continues after the archive or the queue did not answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JoinApplication:
    """Application of a worker to join, with fields as in `NewRemoteWorker`."""

    name: str
    protocol_versions: Sequence[int]
    target: str | None
    device: str | None
    versions: dict[str, str]
    cores: int
    jail: str
    machine: str | None = None


@dataclass(frozen=True)
class JoinGrant:
    """Registration of a worker, with its password, which is not stored."""

    host: RemoteWorker
    password: str


def address_for_hosts(redis_url: str) -> str:
    """Return the queue's address for remote workers, without this service's credential and options.

    Raises:
        Conflict: If only this machine can reach it.
    """
    parts = urlsplit(redis_url)
    if parts.scheme not in ("redis", "rediss"):
        raise Conflict("the queue is a socket of this machine; set REEF_WORKER_REDIS_URL for remote workers")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class RemoteWorkers:
    """Registry and server of remote workers."""

    def __init__(
        self, store: Store, dispatcher: Dispatcher, broker: LeaseBroker, spot_checks: SpotChecks, events: EventBus
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._broker = broker
        self._spot_checks = spot_checks
        self._events = events
        self._working: dict[str, RemoteWorker] = {}
        self._refresh_at = 0.0
        self._keep_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve remote workers in the background until `stop`."""
        self._task = asyncio.create_task(self._run(), name="hosts")

    async def stop(self) -> None:
        """Stop serving; remote workers keep their jobs."""
        if self._task is not None:
            await end([self._task])
        await self._broker.close()

    async def join(self, application: JoinApplication, token: str | None) -> JoinGrant:
        """Register a worker under a new id and with a password of its own.

        Args:
            application: Description of the worker.
            token: Id of the token that it authenticated with.

        Raises:
            Conflict: If it supports no protocol version of this service; says what to install.
            QueueUnavailable: If Redis does not answer.
        """
        version = _agree(application.protocol_versions)
        password = secrets.token_urlsafe(32)
        host = await self._store.remote_workers.add(
            NewRemoteWorker(
                id=str(uuid7()),
                name=application.name,
                token=token,
                target=application.target,
                device=application.device,
                versions=application.versions,
                cores=application.cores,
                jail=application.jail,
                protocol_version=version,
                password_digest=_digest(password),
                machine=None if application.machine is None else _digest(application.machine),
            )
        )
        await self._broker.admit(host.id, host.password_digest)
        self._refresh_at = 0.0
        self._tell(host, "joined")
        return JoinGrant(host, password)

    async def list(self) -> list[RemoteWorker]:
        """Return the remote workers that are active, draining or suspended, sorted by id."""
        return await self._store.remote_workers.list(STAYING)

    async def get(self, id: str) -> RemoteWorker:
        """Return one remote worker, in any state.

        Raises:
            NotFound: If no worker of this id has joined.
        """
        with _service_errors(id):
            return await self._store.remote_workers.get(id)

    async def drain(self, id: str) -> RemoteWorker:
        """Have a remote worker finish its job, take no more and leave.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it is neither active nor draining.
        """
        return await self._move(id, RemoteWorkerState.DRAINING, "", WORKING)

    async def revoke(self, id: str, reason: str = "") -> RemoteWorker:
        """Revoke a remote worker for good; other workers get its jobs at once. Idempotent.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it has left by itself.
            QueueUnavailable: If Redis does not answer; the revocation acts as soon as it does.
        """
        host = await self._move(id, RemoteWorkerState.REVOKED, reason, STAYING)
        await self._broker.dismiss(id)
        return host

    async def trust(self, id: str, trusted: bool) -> RemoteWorker:
        """Set whether later reports of a remote worker count as a trusted worker's.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it is neither active nor draining.
        """
        with _service_errors(id):
            host = await self._store.remote_workers.trust(id, trusted)
        self._refresh_at = 0.0
        self._tell(host, "trusted" if trusted else "untrusted")
        return host

    async def serve(self) -> None:
        """Do one round: refresh states, answer lease requests, renew the leases of working remote workers.

        Raises:
            ArchiveError: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        now = time.monotonic()
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH_S
            await self._refresh()
        seats = [_seat(host) for host in self._working.values()]
        for seat, ask in await self._broker.asks(seats):
            await self._answer(seat, ask)
        if now >= self._keep_at:
            self._keep_at = now + KEEP_S
            await self._keep(seats)

    async def _run(self) -> None:
        while True:
            try:
                await self.serve()
                await asyncio.sleep(SERVE_S)
            except (ArchiveError, QueueUnavailable) as error:
                log.warning("remote workers have to wait", reason=str(error))
                await asyncio.sleep(PAUSE_S)

    async def _answer(self, seat: BrokerWorker, ask: LeaseRequest) -> None:
        if ask.wants and not ask.returned and not seat.draining:
            chosen = await self._spot_checks.choose(self._working[seat.worker])
            if chosen is not None and await self._broker.insert_spot_check(seat, ask, *chosen):
                return
        await self._broker.answer(seat, ask)

    async def _refresh(self) -> None:
        """Make the Redis users equal to the working remote workers; every Redis user was in the archive first."""
        users = await self._broker.users()
        self._working = {host.id: host for host in await self._store.remote_workers.list(WORKING)}
        self._spot_checks.know(list(self._working.values()))
        for id in users - self._working.keys():
            await self._broker.dismiss(id)
        for id in self._working.keys() - users:
            await self._broker.admit(id, self._working[id].password_digest)

    async def _keep(self, seats: Sequence[BrokerWorker]) -> None:
        alive, flooding = await self._broker.keep(seats)
        moment = datetime.now(UTC)
        for id, count in self._dispatcher.refused().items():
            self._spot_checks.count(id, refused=count)
        await self._store.remote_workers.tally(self._spot_checks.take_tallies(), dict.fromkeys(alive, moment))
        for id in flooding:
            await self._shut_out(id, RemoteWorkerState.SUSPENDED, "it sent far more reports than it had jobs")
        staying = await self._store.remote_workers.list(STAYING)
        revoked = await self._revoked(staying)
        for host in staying:
            silent = moment - host.seen_at
            if host.state is RemoteWorkerState.SUSPENDED:
                if silent > AWAY:
                    await self._move(host.id, RemoteWorkerState.LEFT, host.reason, STAYING)
            elif host.protocol_version not in SPOKEN:
                await self._shut_out(host.id, RemoteWorkerState.LEFT, _foreign((host.protocol_version,)))
            elif host.token in revoked:
                await self._shut_out(host.id, RemoteWorkerState.REVOKED, "the token that it joined with was revoked")
            elif host.disagreed >= MOST_DISAGREED and not host.trusted:
                reason = f"{host.disagreed} of {host.checked} checked reports differ from those of trusted workers"
                await self._shut_out(host.id, RemoteWorkerState.SUSPENDED, reason)
            elif silent > (GONE if host.state is RemoteWorkerState.DRAINING else AWAY):
                await self._shut_out(host.id, RemoteWorkerState.LEFT, "")

    async def _revoked(self, hosts: Sequence[RemoteWorker]) -> set[str]:
        """Return the revoked tokens of some remote workers; an expired one still serves workers that joined."""
        tokens = {host.token for host in hosts if host.token is not None}
        return {id for id in tokens if (await self._store.tokens.get(id)).revoked_at is not None}

    async def _shut_out(self, id: str, state: RemoteWorkerState, reason: str) -> None:
        await self._move(id, state, reason, WORKING)
        await self._broker.dismiss(id)

    async def _move(
        self, id: str, state: RemoteWorkerState, reason: str, only_from: tuple[RemoteWorkerState, ...]
    ) -> RemoteWorker:
        with _service_errors(id):
            host = await self._store.remote_workers.set_state(id, state, reason=reason, only_from=only_from)
        self._refresh_at = 0.0
        self._tell(host, state.value)
        return host

    def _tell(self, host: RemoteWorker, state: str) -> None:
        log.info("worker changed", worker=host.id, name=host.name, state=state, reason=host.reason)
        self._events.publish(WorkerChanged(worker=host.id, state=state, reason=host.reason))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _seat(host: RemoteWorker) -> BrokerWorker:
    """Describe a remote worker to the broker. Without trust it gets only queues whose jobs decide nothing alone."""
    compiler = release_of(host.versions.get("triton", "")) or None
    queues = queues_of(host.target, host.device, compiler)
    allowed = tuple(queue for queue in queues if host.trusted or not queue.reserved)
    return BrokerWorker(host.id, allowed, draining=host.state is RemoteWorkerState.DRAINING)


def _agree(offered: Sequence[int]) -> int:
    """Return the newest protocol version that both sides support."""
    common = set(offered) & set(SPOKEN)
    if common:
        return max(common)
    raise Conflict(_foreign(offered), "protocol_versions")


def _foreign(offered: Sequence[int]) -> str:
    """Explain why a worker with these protocol versions cannot join, and what to install."""
    theirs, ours = ", ".join(map(str, sorted(offered))), ", ".join(map(str, SPOKEN))
    older = max(offered) < min(SPOKEN)
    advice = "install a newer kernelreef on the worker" if older else "install a newer kernelreef on the service"
    return f"the worker supports protocol {theirs} and this service {ours}: {advice}"


@contextlib.contextmanager
def _service_errors(id: str) -> Iterator[None]:
    """Translate errors of the archive about one remote worker."""
    try:
        yield
    except RecordNotFound as error:
        detail = f"no remote worker {id} has joined; stop local workers on their own machine"
        raise NotFound(detail) from error
    except RecordConflict as error:
        raise Conflict(str(error)) from error
