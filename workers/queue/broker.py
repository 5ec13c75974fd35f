"""The lease broker of the service: it leases jobs for remote workers, which reach only their own keys.

A remote worker's credential cannot lease, renew, settle or see a job in a queue. The broker does that in its place,
with scripts that check the lease. So a remote worker cannot take a job that was not handed to it, whatever it sends.
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
    in_turn,
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
"""Maximum number of reports that a remote worker may owe and still get a job; a few are always on their way."""
MOST_REPORTS = 1_000
"""Maximum number of reports in a remote worker's stream. It gets one job at a time, so more of them are a flood."""
BROKER = "porter"
"""Worker id in the broker's own reports on lost jobs."""
USERS = user_of("")
"""Prefix of the names of the remote workers' users of Redis."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class BrokerWorker:
    """A remote worker as the broker serves it.

    Attributes:
        worker: Its id.
        queues: Queues that its jobs come from, the preferred first.
        draining: True if it must leave as soon as it holds no job.
    """

    worker: str
    queues: tuple[JobQueue, ...]
    draining: bool = False


class LeaseBroker:
    """Hands jobs to remote workers, renews their leases, and adds and removes their users of Redis."""

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
        """Make a user of Redis for a remote worker, limited to its own keys and the few commands that it needs.

        Each command is allowed on one key only: a remote worker can neither delete its stream of reports nor overwrite
        its inbox.

        Args:
            worker: Id of the remote worker.
            password_digest: SHA-256 of its password, in hexadecimal.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            await self._run("ACL", "SETUSER", user_of(worker), *rules(worker, password_digest))

    async def users(self) -> set[str]:
        """Return the ids of the remote workers that have a user of Redis.

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
        """Remove a remote worker: its connections end, its jobs are requeued at once, its reports are dropped.

        Returns:
            The number of requeued jobs.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        with translated():
            await self._redis.acl_deluser(user_of(worker))
            self._answered.pop(worker, None)
            return int(await self._return(args=[worker, "", "", RELEASED_MS]))

    async def asks(self, workers: Sequence[BrokerWorker]) -> list[tuple[BrokerWorker, LeaseRequest]]:
        """Return the requests of these workers that are not answered yet. Unreadable requests are ignored.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if not workers:
            return []
        with translated():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for remote in workers:
                    pipeline.getrange(ask_key(remote.worker), 0, ASK_BYTES)
                texts = await pipeline.execute()
        asked = ((remote, _request(text)) for remote, text in zip(workers, texts, strict=True) if text)
        return [
            (remote, request)
            for remote, request in asked
            if request and request.number > self._answered.get(remote.worker, 0)
        ]

    async def answer(self, remote: BrokerWorker, request: LeaseRequest) -> bool:
        """Answer a request: requeue the job that it returns, and hand over the next job of its queues.

        Returns:
            False if there was no job for it.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            if request.returned:
                await self._return(args=[remote.worker, request.returned, request.mishap, RELEASED_MS])
            if not request.wants:
                return self._note(remote, request)
            if remote.draining and await self._redis.get(held_key(remote.worker)) in (None, request.done):
                await self._redis.rpush(inbox_key(remote.worker), FAREWELL)
                return self._note(remote, request)
            queues = [queue.name for queue in in_turn(remote.queues)]
            limits = (MOST_OWED, MAX_DELIVERIES, self._lease_ms)
            arguments: list[str | int] = [remote.worker, request.number, request.done, *limits, *queues]
            while (handed := await self._hand(args=arguments)) is not None:
                if not handed:
                    return self._note(remote, request)
                await self._lose(remote.worker, *handed)
        return False

    async def insert_spot_check(
        self, remote: BrokerWorker, request: LeaseRequest, job: TraceJob | MeasureJob, known: str
    ) -> bool:
        """Answer a request with a spot check, which looks like any other job.

        Args:
            remote: The remote worker.
            request: Its request.
            job: The job.
            known: The expected answer, for the collector of the report; the remote worker never sees it.

        Returns:
            False if the remote worker cannot take it now.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        told: list[str | int] = [remote.worker, request.number, request.done, job.id, job.model_dump_json(), known]
        with translated():
            return bool(await self._plant(args=told)) and self._note(remote, request)

    async def keep(self, workers: Sequence[BrokerWorker]) -> tuple[set[str], set[str]]:
        """Renew the leases of the remote workers that are alive.

        Returns:
            The workers that are alive, and those with more reports waiting than an honest one can have.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        if not workers:
            return set(), set()
        with translated():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for remote in workers:
                    await self._keep(args=[remote.worker], client=pipeline)
                    pipeline.exists(worker_key(remote.worker))
                    pipeline.xlen(reports_key(remote.worker))
                said = await pipeline.execute()
            alive = {remote.worker for remote, exists in zip(workers, said[1::3], strict=True) if exists}
            if alive:
                await self._redis.sadd(WORKERS, *alive)
        flooding = {remote.worker for remote, length in zip(workers, said[2::3], strict=True) if length > MOST_REPORTS}
        return alive, flooding

    def _note(self, remote: BrokerWorker, request: LeaseRequest) -> bool:
        self._answered[remote.worker] = request.number
        return True

    async def _lose(
        self, worker: str, queue_name: str, search: str, entry: str, deliveries: int, id: str, text: str
    ) -> None:
        """Report a job that failed on too many workers as lost, in the broker's own name."""
        queue = JobQueue.named(queue_name)
        reason = f"{MAX_DELIVERIES} workers died or gave up while they held this job; it is not tried again"
        last_error: Any = await self._redis.hget(queue.errors(search), id)
        told = f"{reason}. The last one said: {last_error}" if last_error else reason
        log.error("job lost", job=id, deliveries=deliveries - 1, last_error=last_error)
        async with self._redis.pipeline(transaction=True) as pipeline:
            job = _job(text)
            if job is not None:
                pipeline.xadd(reports_key(BROKER), {"report": lost_report(job, BROKER, told).model_dump_json()})
                pipeline.sadd(WORKERS, BROKER)
            pipeline.xack(queue.jobs(search), JOB_GROUP, entry)
            pipeline.xdel(queue.jobs(search), entry)
            pipeline.hdel(queue.ids(search), id)
            pipeline.hdel(queue.errors(search), id)
            await pipeline.execute()


def rules(worker: str, password_digest: str) -> tuple[str, ...]:
    """Return the rules of a remote worker's user of Redis: selectors, each a few commands on one key."""
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


def _request(text: str) -> LeaseRequest | None:
    try:
        return LeaseRequest.model_validate_json(text)
    except ValidationError:
        return None


def _job(text: str) -> Job | None:
    try:
        return JOB.validate_json(text)
    except ValidationError:
        return None
