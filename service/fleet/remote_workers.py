"""Hosts: who joined the pool with a token, how they stand, and the loop that serves them.

What is true of a host is in the archive. Users of Redis are made from it and compared with it every few seconds, so
that a Redis that lost everything lets them in again, and one that was away when a host was revoked shuts it out.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

import structlog
from uuid6 import uuid7

from archive.errors import ArchiveError, RecordConflict, RecordNotFound
from archive.records import NewRemoteWorker, RemoteWorker, RemoteWorkerState
from archive.store import Store
from service.errors import Conflict as Refused
from service.errors import NotFound as Unknown
from service.evaluation.spot_checks import SpotChecks
from service.events import EventBus, WorkerChanged
from service.tasks import end
from workers.protocol import PROTOCOL_VERSION
from workers.queue import BrokerWorker, Dispatcher, LeaseBroker, LeaseRequest, QueueUnavailable, lanes_of

SPOKEN = (PROTOCOL_VERSION,)
"""Versions of the protocol that this service speaks."""
SERVE_S = 0.1
"""Seconds between two looks at what hosts ask for: a tenth of what a job takes at least."""
KEEP_S = 3.0
"""Seconds between renewals of the leases of hosts: five may fail before one lapses."""
REFRESH_S = 2.0
"""Seconds between two looks at the archive and at the users of Redis: how soon other coordinators' changes count."""
AWAY = timedelta(hours=24)
"""A host that was silent for this long has left: its credential is taken back."""
GONE = timedelta(seconds=60)
"""A host that is draining and silent for this long has left."""
MOST_DISAGREED = 3
"""Answers that differ from trusted workers' before a host is suspended: one may be a card that failed for a moment."""
WORKING = (RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING)
STAYING = (*WORKING, RemoteWorkerState.SUSPENDED)
PAUSE_S = 1.0
"""Seconds before the loop goes on after the archive or the queue did not answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JoinApplication:
    """What a worker says when it asks to join; field by field as in `NewRemoteWorker`."""

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
    """What a worker gets for it; the password is not kept."""

    host: RemoteWorker
    password: str


def address_for_hosts(redis_url: str) -> str:
    """Address of the queue for others: without credential and options, which are ours alone.

    Raises:
        Conflict: If only this machine can reach it.
    """
    parts = urlsplit(redis_url)
    if parts.scheme not in ("redis", "rediss"):
        raise Refused("the queue is a socket of this machine; set REEF_WORKER_REDIS_URL for workers elsewhere")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class RemoteWorkers:
    """Lets hosts in and out, and serves those that are in."""

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
        """Serve in the background until `stop`."""
        self._task = asyncio.create_task(self._run(), name="hosts")

    async def stop(self) -> None:
        """Stop serving; hosts keep what they hold."""
        if self._task is not None:
            await end([self._task])
        await self._broker.close()

    async def join(self, application: JoinApplication, token: str | None) -> JoinGrant:
        """Let a worker in, under a new id and with a password of its own.

        Args:
            application: What it is.
            token: Id of the token that it shows.

        Raises:
            Conflict: If we share no version of the protocol with it; says what to install.
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
        """Hosts that work or are suspended, by id."""
        return await self._store.remote_workers.list(STAYING)

    async def get(self, id: str) -> RemoteWorker:
        """One host, in whatever state.

        Raises:
            NotFound: If no worker of this id has joined.
        """
        try:
            return await self._store.remote_workers.get(id)
        except RecordNotFound as error:
            raise _unknown(id) from error

    async def drain(self, id: str) -> RemoteWorker:
        """Have a host finish its job, take no more and leave.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it does not work.
        """
        return await self._move(id, RemoteWorkerState.DRAINING, "", WORKING)

    async def revoke(self, id: str, reason: str = "") -> RemoteWorker:
        """Shut a host out for good; its jobs go to others at once. Asking again changes nothing.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it has left by itself.
            QueueUnavailable: If Redis does not answer; it is shut out as soon as Redis does.
        """
        host = await self._move(id, RemoteWorkerState.REVOKED, reason, STAYING)
        await self._broker.dismiss(id)
        return host

    async def trust(self, id: str, trusted: bool) -> RemoteWorker:
        """Vouch for a host, or no longer; from then on its reports count as a trusted worker's, or not.

        Raises:
            NotFound: If no worker of this id has joined.
            Conflict: If it may not work.
        """
        try:
            host = await self._store.remote_workers.trust(id, trusted)
        except RecordNotFound as error:
            raise _unknown(id) from error
        except RecordConflict as error:
            raise Refused(str(error)) from error
        self._refresh_at = 0.0
        self._tell(host, "trusted" if trusted else "untrusted")
        return host

    async def serve(self) -> None:
        """One round: see how hosts stand, answer those that ask, keep the leases of those that work.

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
                log.warning("hosts wait", reason=str(error))
                await asyncio.sleep(PAUSE_S)

    async def _answer(self, seat: BrokerWorker, ask: LeaseRequest) -> None:
        if ask.wants and not ask.returned and not seat.draining:
            chosen = await self._spot_checks.choose(self._working[seat.worker])
            if chosen is not None and await self._broker.insert_spot_check(seat, ask, *chosen):
                return
        await self._broker.answer(seat, ask)

    async def _refresh(self) -> None:
        """Have Redis let in exactly the hosts that work. A user that is there was in the archive before."""
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
            await self._shut_out(
                id, RemoteWorkerState.SUSPENDED, "it handed in far more reports than it was given jobs"
            )
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
                reason = f"{host.disagreed} of {host.checked} answers differ from those of trusted workers"
                await self._shut_out(host.id, RemoteWorkerState.SUSPENDED, reason)
            elif silent > (GONE if host.state is RemoteWorkerState.DRAINING else AWAY):
                await self._shut_out(host.id, RemoteWorkerState.LEFT, "")

    async def _revoked(self, hosts: Sequence[RemoteWorker]) -> set[str]:
        """Tokens of hosts that were revoked; one that has expired serves those that joined with it."""
        tokens = {host.token for host in hosts if host.token is not None}
        return {id for id in tokens if (await self._store.tokens.get(id)).revoked_at is not None}

    async def _shut_out(self, id: str, state: RemoteWorkerState, reason: str) -> None:
        await self._move(id, state, reason, WORKING)
        await self._broker.dismiss(id)

    async def _move(
        self, id: str, state: RemoteWorkerState, reason: str, only_from: tuple[RemoteWorkerState, ...]
    ) -> RemoteWorker:
        try:
            host = await self._store.remote_workers.set_state(id, state, reason=reason, only_from=only_from)
        except RecordNotFound as error:
            raise _unknown(id) from error
        except RecordConflict as error:
            raise Refused(str(error)) from error
        self._refresh_at = 0.0
        self._tell(host, state.value)
        return host

    def _tell(self, host: RemoteWorker, state: str) -> None:
        log.info("worker changed", worker=host.id, name=host.name, state=state, reason=host.reason)
        self._events.publish(WorkerChanged(worker=host.id, state=state, reason=host.reason))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _seat(host: RemoteWorker) -> BrokerWorker:
    """A host's place before the porter: without trust, only lanes whose jobs decide nothing by themselves."""
    lanes = lanes_of(host.target, host.device)
    allowed = tuple(lane for lane in lanes if host.trusted or not lane.reserved)
    return BrokerWorker(host.id, allowed, draining=host.state is RemoteWorkerState.DRAINING)


def _agree(offered: Sequence[int]) -> int:
    """The newest version of the protocol that both sides speak."""
    common = set(offered) & set(SPOKEN)
    if common:
        return max(common)
    raise Refused(_foreign(offered), "protocol_versions")


def _foreign(offered: Sequence[int]) -> str:
    """Why a worker cannot work here that speaks these versions of the protocol, and what to install."""
    theirs, ours = ", ".join(map(str, sorted(offered))), ", ".join(map(str, SPOKEN))
    older = max(offered) < min(SPOKEN)
    advice = "install a newer kernelreef on the worker" if older else "install a newer kernelreef on the service"
    return f"the worker speaks protocol {theirs} and this service {ours}: {advice}"


def _unknown(id: str) -> Unknown:
    return Unknown(f"no worker {id} has joined; those that the service runs itself are ended where they run")
