"""The worker's side of the queue: lease a job, renew the lease, hand in the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from pydantic import ValidationError
from redis import Redis
from redis.client import Pipeline
from redis.retry import Retry

from workers.protocol import (
    JOB,
    AnyReport,
    Job,
)
from workers.queue.connection import ANSWER_S, MAX_BLOCK_MS, RETRIES, backoff, script, translated
from workers.queue.keys import FINAL, JOB_GROUP, WORKERS, JobQueue, in_turn, queues_of, reports_key, worker_key
from workers.queue.lost_jobs import lost_report
from workers.queue.status import WorkerStatus

LEASE_MS = 15_000
"""Milliseconds without a renewal after which a lease lapses: the time of three heartbeats at their default pace."""
MAX_DELIVERIES = 3
"""Number of workers that may fail on a job before it counts as lost (DESIGN 5, step 7)."""
RELEASED_MS = 24 * 3600 * 1000
"""Idle time given to a released lease: longer than any worker's lease time, so that it counts as lapsed."""
KINDS = ("confirm", "measure", "trace", "final")
"""Kinds of jobs."""
DEAD_LETTERS = 1_000
"""Number of unreadable jobs kept per queue, for a person to look at."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Lease:
    """A job that a worker holds until it reports, releases it or stops renewing.

    Attributes:
        job: The job.
        queue: The queue that it came from.
        entry: Its entry in the stream.
        deliveries: Number of times that it was leased, this one included.
    """

    job: Job
    queue: JobQueue
    entry: str
    deliveries: int


class LeaseClient:
    """Leases jobs for one worker, one at a time. Jobs that finish a candidate come first."""

    def __init__(
        self,
        redis_url: str,
        worker: str,
        *,
        target: str | None = None,
        device: str | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """Prepare to lease; nothing is sent yet.

        Args:
            redis_url: Address of Redis, with its credential.
            worker: Id of this worker, unique among workers, without a colon.
            target: Compile target that it traces for, such as `sm_90`; None if it does not trace.
            device: Name of the device it measures on; None if it measures nothing.
            lease_ms: Milliseconds without a renewal after which its leases lapse, and it counts as gone.
        """
        self.worker = worker
        self.lease_ms = lease_ms
        self._queues = queues_of(target, device)
        kinds = tuple(queue.kind for queue in self._queues if queue.kind in KINDS)
        self._status = WorkerStatus(id=worker, target=target, device=device, kinds=kinds, seen=_now())
        self._redis = Redis.from_url(
            redis_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=ANSWER_S,
            retry=Retry(backoff(), RETRIES),
        )
        self._take = self._redis.register_script(script("pick", "lease"))
        self._renew = self._redis.register_script(script("renew"))

    def announce(self, *, jail: str = "", versions: Mapping[str, str] | None = None) -> None:
        """Publish this worker's status. Later calls add to what earlier ones published.

        With a version of Triton it also takes jobs that ask for that release.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        known = {"jail": jail or self._status.jail, "versions": {**self._status.versions, **(versions or {})}}
        self._status = self._status.model_copy(update=known)
        self._queues = queues_of(self._status.target, self._status.device, self._status.compiler)
        with translated():
            self._appear(None)

    def lease(self, block_ms: int, *, busy: str | None = None) -> Lease | None:
        """Take the next job, waiting for one if there is none.

        Jobs with a lapsed lease of another worker count too. A job that failed on too many workers is reported as
        lost, and an unreadable one goes to the queue's dead letters.

        Args:
            block_ms: Longest wait, milliseconds, at most `MAX_BLOCK_MS`; 0 does not wait.
            busy: Id of the job that the worker works on meanwhile; None if it is idle. A busy worker gets no
                finalist to examine: it would wait while others are idle.

        Returns:
            The lease, or None if no job came.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            self._appear(busy)
            queues = [queue for queue in self._queues if busy is None or queue.kind != FINAL]
            lease = self._next(queues)
            if lease is None and block_ms > 0:
                waited_s = min(block_ms, MAX_BLOCK_MS) / 1000
                if self._redis.blpop([queue.wake for queue in queues], timeout=waited_s) is not None:
                    lease = self._next(queues)
            if lease is not None and busy is None:
                self._appear(lease.job.id)
            return lease

    def heartbeat(self, lease: Lease) -> bool:
        """Renew a lease.

        Returns:
            False if the job is no longer this worker's: it was cancelled, or the lease lapsed and another has it.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            self._appear(lease.job.id)
            return self._hold(lease, idle_ms=0, deliveries=lease.deliveries)

    def report(self, lease: Lease, report: AnyReport) -> None:
        """Hand in a report and settle its job, in one transaction.

        A report on a lost lease is handed in too: the service deduplicates reports by job.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        with translated(), self._redis.pipeline(transaction=True) as pipeline:
            pipeline.xadd(reports_key(self.worker), {"report": report.model_dump_json()})
            pipeline.sadd(WORKERS, self.worker)
            _settle(pipeline, lease.queue, lease.job.search, lease.entry, lease.job.id)
            pipeline.execute()

    def release(self, lease: Lease, last_error: str | None = None) -> None:
        """Release a job for the next worker.

        Args:
            lease: Its lease.
            last_error: Error that made this delivery fail; None if it did not fail, and the delivery does not count.

        Raises:
            QueueUnavailable: If Redis does not answer; the lease then lapses by itself.
        """
        with translated():
            deliveries = lease.deliveries - (last_error is None)
            if not self._hold(lease, idle_ms=RELEASED_MS, deliveries=deliveries):
                return
            if last_error is not None:
                self._redis.hset(lease.queue.errors(lease.job.search), lease.job.id, last_error)
            self._redis.lpush(lease.queue.wake, lease.job.id)

    def depart(self) -> None:
        """Delete the status and close the connection.

        Raises:
            QueueUnavailable: If Redis does not answer; the worker's status then expires by itself.
        """
        try:
            with translated():
                self._redis.delete(worker_key(self.worker))
        finally:
            self._redis.close()

    def _appear(self, busy: str | None) -> None:
        status = self._status.model_copy(update={"busy": busy, "seen": _now()})
        with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.sadd(WORKERS, self.worker)
            pipeline.set(worker_key(self.worker), status.model_dump_json(), px=self.lease_ms)
            pipeline.execute()

    def _hold(self, lease: Lease, *, idle_ms: int, deliveries: int) -> bool:
        stream = lease.queue.jobs(lease.job.search)
        return bool(self._renew(args=[stream, self.worker, lease.entry, idle_ms, deliveries]))

    def _next(self, queues: Sequence[JobQueue]) -> Lease | None:
        while taken := self._take(args=[self.worker, self.lease_ms, *(queue.name for queue in in_turn(queues))]):
            lease = self._read(*taken)
            if lease is None:
                continue
            if lease.deliveries <= MAX_DELIVERIES:
                return lease
            self._lose(lease)
        return None

    def _lose(self, lease: Lease) -> None:
        """Report a job as lost, with its last error if that is known."""
        last_error: Any = self._redis.hget(lease.queue.errors(lease.job.search), lease.job.id)
        log.error("job lost", job=lease.job.id, deliveries=lease.deliveries - 1, last_error=last_error)
        reason = f"{MAX_DELIVERIES} workers died or gave up while they held this job; it is not tried again"
        told = f"{reason}. The last one said: {last_error}" if last_error else reason
        self.report(lease, lost_report(lease.job, self.worker, told))

    def _read(self, queue_name: str, search: str, entry: str, deliveries: int, job_id: str, text: str) -> Lease | None:
        queue = JobQueue.named(queue_name)
        try:
            return Lease(JOB.validate_json(text), queue, entry, deliveries)
        except ValidationError as error:
            log.error("unreadable job", job=job_id, queue=queue.name, search=search, errors=error.error_count())
            letter: dict[Any, Any] = {"search": search, "id": job_id, "job": text, "error": str(error)}
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.xadd(queue.dead, letter, maxlen=DEAD_LETTERS, approximate=True)
            _settle(pipeline, queue, search, entry, job_id)
            pipeline.execute()
        return None


def _settle(pipeline: Pipeline, queue: JobQueue, search: str, entry: str, job: str) -> None:
    pipeline.xack(queue.jobs(search), JOB_GROUP, entry)
    pipeline.xdel(queue.jobs(search), entry)
    pipeline.hdel(queue.ids(search), job)
    pipeline.hdel(queue.errors(search), job)


def _now() -> datetime:
    return datetime.now(UTC)
