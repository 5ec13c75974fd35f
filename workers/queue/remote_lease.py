"""A remote worker's side of the queue.

A remote worker joined with a token and may belong to anybody. On request the service's broker leases a job for it. Its
user of Redis reaches five keys only: its request, its inbox, its status, its reports and the id of the job it holds.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from pydantic import ValidationError
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.retry import Retry

from workers.errors import Dismissed, QueueUnavailable
from workers.protocol import (
    JOB,
    REASON_CHARS,
    AnyReport,
    Job,
)
from workers.queue.connection import ANSWER_S, MAX_BLOCK_MS, RETRIES, backoff, translated
from workers.queue.keys import JobQueue, ask_key, held_key, inbox_key, reports_key, user_of, worker_key
from workers.queue.lease import LEASE_MS, Lease
from workers.queue.lease_request import ASK_MS, LeaseRequest
from workers.queue.status import WorkerStatus

DISMISSED = 4
"""Exit status of a worker that the service refuses or dismissed. Its supervisor must not restart it."""
FAREWELL = "drained"
"""Text in the inbox in place of a job, for a worker that is being drained."""
STALE_S = 10.0
"""Seconds without an answer after which a request gets a new number: the answer may be lost with its connection."""
REFUSED_S = 2.0
"""Seconds to wait after Redis refused our credential; a server that lost its data gets our user back within these."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class QueueCredential:
    """The credential that a remote worker got for its token.

    Attributes:
        worker: Id of the worker.
        redis_url: Address of Redis, without any credential.
        password: Password of its own user.
        ca: CA certificates to verify Redis with, PEM; None for those that the machine trusts.
    """

    worker: str
    redis_url: str
    password: str
    ca: str | None = None


class RemoteLeaseClient:
    """Leases jobs for a remote worker, one at a time, through the broker."""

    def __init__(self, credential: QueueCredential, standing: Callable[[], str], *, status: WorkerStatus) -> None:
        """Prepare; nothing is sent yet.

        Args:
            credential: The credential from joining.
            standing: Asks the service for the worker's state; any other than `active` or `draining` ends the worker.
                It is called when Redis refuses the credential, and may raise `QueueUnavailable`.
            status: The worker's first status.
        """
        self.worker = credential.worker
        self.lease_ms = LEASE_MS
        self._standing = standing
        self._status = status
        self._number = self._since = int(time.time() * 1000)
        self._asked_at = time.monotonic()
        self._done = ""
        self._back: dict[str, str] = {}
        certificates: dict[str, Any] = {} if credential.ca is None else {"ssl_ca_data": credential.ca}
        self._redis = Redis.from_url(
            credential.redis_url,
            username=user_of(credential.worker),
            password=credential.password,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=ANSWER_S,
            retry=Retry(backoff(), RETRIES),
            **certificates,
        )

    def announce(self, *, jail: str = "", versions: Mapping[str, str] | None = None) -> None:
        """Publish this worker's status. Later calls add to what earlier ones published.

        Raises:
            QueueUnavailable: If Redis does not answer.
            Dismissed: If the worker may work no longer.
        """
        known = {"jail": jail or self._status.jail, "versions": {**self._status.versions, **(versions or {})}}
        self._status = self._status.model_copy(update=known)
        with self._admitted():
            self._appear(None)

    def lease(self, block_ms: int) -> Lease | None:
        """Ask for a job and wait for it.

        Args:
            block_ms: Longest wait, milliseconds, at most `MAX_BLOCK_MS`.

        Raises:
            QueueUnavailable: If Redis does not answer.
            Dismissed: If the worker is drained, or may work no longer.
        """
        if time.monotonic() - self._asked_at > STALE_S:
            self._begin_ask()
        with self._admitted():
            self._appear(None)
            self._ask()
            wait_s = max(0.05, min(block_ms, MAX_BLOCK_MS) / 1000)
            said: Any = self._redis.blpop([inbox_key(self.worker)], timeout=wait_s)
            lease = None if said is None else self._read(said[1])
            if lease is not None:
                self._back = {}
                self._begin_ask()
                self._since = self._number
                self._appear(lease.job.id)
        return lease

    def heartbeat(self, lease: Lease) -> bool:
        """Show that the worker works on a job. Returns False if it holds the job no longer.

        Raises:
            QueueUnavailable: If Redis does not answer.
            Dismissed: If the worker may work no longer.
        """
        with self._admitted():
            self._appear(lease.job.id)
            return self._redis.get(held_key(self.worker)) == lease.job.id

    def report(self, lease: Lease, report: AnyReport) -> None:
        """Hand in a report; the service settles the job.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
            Dismissed: If the worker may work no longer.
        """
        with self._admitted():
            self._redis.xadd(reports_key(self.worker), {"report": report.model_dump_json()})
        self._done = lease.job.id

    def release(self, lease: Lease, last_error: str | None = None) -> None:
        """Release a job for the next worker.

        Args:
            lease: Its lease.
            last_error: Error that made this delivery fail; None if it did not fail.

        Raises:
            QueueUnavailable: If Redis does not answer; the lease then lapses by itself.
        """
        self._back = {"returned": lease.job.id, "mishap": (last_error or "")[:REASON_CHARS]}
        self._begin_ask()
        with self._admitted():
            self._ask(wants=False)
        self._begin_ask()

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

    def _begin_ask(self) -> None:
        self._number += 1
        self._asked_at = time.monotonic()

    def _ask(self, *, wants: bool = True) -> None:
        request = LeaseRequest(number=self._number, wants=wants, done=self._done, **self._back)
        self._redis.set(ask_key(self.worker), request.model_dump_json(), px=ASK_MS)

    def _appear(self, busy: str | None) -> None:
        status = self._status.model_copy(update={"busy": busy, "seen": datetime.now(UTC)})
        self._redis.set(worker_key(self.worker), status.model_dump_json(), px=self.lease_ms)

    def _read(self, text: str) -> Lease | None:
        """Read an answer from the inbox. Returns None for a repeated or unreadable one."""
        if text == FAREWELL:
            raise Dismissed("this worker was drained; it may join again")
        number, _, body = text.partition("\n")
        held = self._redis.get(held_key(self.worker))
        if int(number) < self._since or held is None:
            return None
        try:
            job: Job = JOB.validate_json(body)
        except ValidationError as error:
            log.error("unreadable job", worker=self.worker, job=held, errors=error.error_count())
            self._back = {"returned": str(held), "mishap": "it does not follow the protocol"}
            self._begin_ask()
            return None
        if job.id != held:
            return None
        return Lease(job, JobQueue.of(job), "", 1)

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[None]:
        """Turn refusals of Redis into `Dismissed` if we may no longer work, else into `QueueUnavailable`."""
        try:
            with translated():
                yield
        except NoPermissionError as error:
            raise QueueUnavailable(f"Redis refuses a command that a remote worker needs: {error}") from error
        except QueueUnavailable as error:
            if not isinstance(error.__cause__, AuthenticationError):
                raise
            standing = self._standing()
            if standing not in ("active", "draining"):
                raise Dismissed(f"this worker may work no longer: it is {standing}") from error
            time.sleep(REFUSED_S)
            raise
