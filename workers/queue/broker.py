"""The porter: where hosts get their jobs. It belongs to the service; hosts reach only their own keys.

A host's credential cannot lease, renew, settle or see a job in a lane: the porter does that in its place, with scripts
that check whose lease it is. So a host cannot take what was not handed to it, whatever it sends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.exceptions import NoPermissionError

from workers.errors import QueueUnavailable
from workers.protocol import (
    JOB,
    Job,
    MeasureJob,
    TraceJob,
)
from workers.queue.connection import ANSWER_S, RETRIES, backoff, script, translated
from workers.queue.keys import (
    JOB_GROUP,
    WORKERS,
    JobQueue,
    ask_key,
    held_key,
    inbox_key,
    reports_key,
    user_of,
    worker_key,
)
from workers.queue.lease import LEASE_MS, MAX_DELIVERIES, RELEASED_MS
from workers.queue.lease_request import ASK_BYTES, LeaseRequest
from workers.queue.lost_jobs import lost_report
from workers.queue.remote_lease import FAREWELL

MOST_OWED = 16
"""Reports that a host may owe before it gets no further job: a few are on their way to the archive at any time."""
MOST_REPORTS = 1_000
"""Reports that may wait in a host's stream; its jobs come one at a time, so that more of them is a flood."""
PORTER = "porter"
"""Name that reports of the porter itself carry: on jobs that nobody brought back."""
USERS = user_of("")
"""Begins the name of every host's user."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class BrokerWorker:
    """A host as the porter serves it.

    Attributes:
        worker: Its id.
        queues: Where its jobs come from, the preferred first.
        draining: Whether it shall leave as soon as it holds nothing.
    """

    worker: str
    queues: tuple[JobQueue, ...]
    draining: bool = False


class LeaseBroker:
    """Hands jobs to hosts, keeps their leases, and lets them in and out of Redis."""

    def __init__(self, redis_url: str, *, lease_ms: int = LEASE_MS) -> None:
        """Prepare; nothing is sent yet.

        Args:
            redis_url: Address of Redis, with a credential that may manage users.
            lease_ms: Milliseconds without a renewal after which a lease has lapsed.
        """
        self._lease_ms = lease_ms
        self._answered: dict[str, int] = {}
        self._redis = Redis.from_url(
            redis_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=ANSWER_S,
            retry=Retry(backoff(), RETRIES),
        )
        self._run: Callable[..., Awaitable[object]] = self._redis.execute_command
        self._hand = self._redis.register_script(script("pick", "hand"))
        self._plant = self._redis.register_script(script("plant"))
        self._keep = self._redis.register_script(script("keep"))
        self._return = self._redis.register_script(script("return"))

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def admit(self, worker: str, password_digest: str) -> None:
        """Let a host in: a user of its own, for its own keys and the handful of commands that it needs.

        Each command comes with the one key that it is for, so that it cannot be turned on another: a host may not
        delete its stream of reports, nor overwrite its inbox.

        Args:
            worker: Id of the host.
            password_digest: SHA-256 of its password, in hexadecimal.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            await self._run("ACL", "SETUSER", user_of(worker), *rules(worker, password_digest))

    async def users(self) -> set[str]:
        """Hosts that Redis lets in.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            try:
                names = await self._redis.acl_users()
            except NoPermissionError as error:
                raise QueueUnavailable(f"the service may not manage users of Redis: {error}") from error
        return {str(name).removeprefix(USERS) for name in names if str(name).startswith(USERS)}

    async def dismiss(self, worker: str) -> int:
        """Shut a host out: its connections end, its jobs go to others at once, its reports are dropped.

        Returns:
            How many jobs went back.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        with translated():
            await self._redis.acl_deluser(user_of(worker))
            self._answered.pop(worker, None)
            return int(await self._return(args=[worker, "", "", RELEASED_MS]))

    async def asks(self, seats: Sequence[BrokerWorker]) -> list[tuple[BrokerWorker, LeaseRequest]]:
        """Return the requests of these hosts that are not answered yet. Unreadable requests are ignored.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if not seats:
            return []
        with translated():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for seat in seats:
                    pipeline.getrange(ask_key(seat.worker), 0, ASK_BYTES)
                texts = await pipeline.execute()
        asked = ((seat, _ask(text)) for seat, text in zip(seats, texts, strict=True) if text)
        return [(seat, ask) for seat, ask in asked if ask and ask.number > self._answered.get(seat.worker, 0)]

    async def answer(self, seat: BrokerWorker, ask: LeaseRequest) -> bool:
        """Answer an ask: take back what it returns, and hand over the next job of its lanes.

        Returns:
            False if there was no job for it.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            if ask.returned:
                await self._return(args=[seat.worker, ask.returned, ask.mishap, RELEASED_MS])
            if not ask.wants:
                return self._note(seat, ask)
            if seat.draining and await self._redis.get(held_key(seat.worker)) in (None, ask.done):
                await self._redis.rpush(inbox_key(seat.worker), FAREWELL)
                return self._note(seat, ask)
            queues = [queue.name for queue in seat.queues]
            limits = (MOST_OWED, MAX_DELIVERIES, self._lease_ms)
            while (handed := await self._hand(args=[seat.worker, ask.number, ask.done, *limits, *queues])) is not None:
                if not handed:
                    return self._note(seat, ask)
                await self._lose(seat.worker, *handed)
        return False

    async def insert_spot_check(
        self, seat: BrokerWorker, ask: LeaseRequest, job: TraceJob | MeasureJob, known: str
    ) -> bool:
        """Answer an ask with a job of our own choice, which looks like any other.

        Args:
            seat: The host.
            ask: What it asked.
            job: The job.
            known: What is known of its answer, for whoever collects the report; the host never sees it.

        Returns:
            False if the host cannot have it now.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        told: list[str | int] = [seat.worker, ask.number, ask.done, job.id, job.model_dump_json(), known]
        with translated():
            return bool(await self._plant(args=told)) and self._note(seat, ask)

    async def keep(self, seats: Sequence[BrokerWorker]) -> tuple[set[str], set[str]]:
        """Renew the leases of the hosts that show signs of life.

        Returns:
            These hosts, and those with more reports waiting than an honest one can have.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if not seats:
            return set(), set()
        with translated():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for seat in seats:
                    await self._keep(args=[seat.worker], client=pipeline)
                    pipeline.exists(worker_key(seat.worker))
                    pipeline.xlen(reports_key(seat.worker))
                said = await pipeline.execute()
            alive = {seat.worker for seat, exists in zip(seats, said[1::3], strict=True) if exists}
            if alive:
                await self._redis.sadd(WORKERS, *alive)
        flooding = {seat.worker for seat, length in zip(seats, said[2::3], strict=True) if length > MOST_REPORTS}
        return alive, flooding

    def _note(self, seat: BrokerWorker, ask: LeaseRequest) -> bool:
        self._answered[seat.worker] = ask.number
        return True

    async def _lose(
        self, worker: str, queue_name: str, search: str, entry: str, deliveries: int, id: str, text: str
    ) -> None:
        """Report a job that failed too many workers as lost, in the porter's own name."""
        queue = JobQueue.named(queue_name)
        reason = f"{MAX_DELIVERIES} workers died or gave up while they held this job; it is not tried again"
        last_error: Any = await self._redis.hget(queue.errors(search), id)
        told = f"{reason}. The last one said: {last_error}" if last_error else reason
        log.error("job lost", job=id, deliveries=deliveries - 1, last_error=last_error)
        async with self._redis.pipeline(transaction=True) as pipeline:
            job = _job(text)
            if job is not None:
                pipeline.xadd(reports_key(PORTER), {"report": lost_report(job, PORTER, told).model_dump_json()})
                pipeline.sadd(WORKERS, PORTER)
            pipeline.xack(queue.jobs(search), JOB_GROUP, entry)
            pipeline.xdel(queue.jobs(search), entry)
            pipeline.hdel(queue.ids(search), id)
            pipeline.hdel(queue.errors(search), id)
            await pipeline.execute()


def rules(worker: str, password_digest: str) -> tuple[str, ...]:
    """Rules of a host's user of Redis: selectors, each a few commands on one key."""
    return (
        *(
            "reset",
            "on",
            f"#{password_digest}",
            "-@all",
            "+ping",
            "+hello",
            "+auth",
            "+client|setinfo",
            "+client|setname",
        ),
        f"(+set +del %W~{worker_key(worker)})",
        f"(+set +del %W~{ask_key(worker)})",
        f"(+xadd %W~{reports_key(worker)})",
        f"(+blpop %RW~{inbox_key(worker)})",
        f"(+get %R~{held_key(worker)})",
    )


def _ask(text: str) -> LeaseRequest | None:
    try:
        return LeaseRequest.model_validate_json(text)
    except ValidationError:
        return None


def _job(text: str) -> Job | None:
    try:
        return JOB.validate_json(text)
    except ValidationError:
        return None
