"""The service's side of the queue: send jobs, collect reports, list pending jobs and workers."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.exceptions import ResponseError

from workers.protocol import (
    JOB,
    REASON_CHARS,
    REPORT,
    AnyReport,
    Job,
    check_protocol,
)
from workers.queue.connection import ANSWER_S, MAX_BLOCK_MS, RETRIES, backoff, script, translated
from workers.queue.forwarding import ReportForwarding
from workers.queue.keys import REPORT_GROUP, WORKERS, JobQueue, is_host, reports_key, worker_key, worker_of
from workers.queue.lost_jobs import unread_report
from workers.queue.report_validation import require_match
from workers.queue.stats import QueueStats, queues_in
from workers.queue.status import WorkerStatus

REDELIVER_MS = 5_000
"""A report not acknowledged for this long is delivered again: longer than the commits of one collection."""
NO_SHARE = ("", 5)
"""Default owner and priority of a search."""
STATUS_BYTES = 1 << 16
"""Maximum length of a status that is read, bytes; a normal one takes a few hundred."""
CONSUMER = "coordinator"
"""Consumer name of every coordinator, so that the next one takes over unacknowledged reports."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Delivery:
    """A report, with the receipt to acknowledge it by once its content is committed.

    Attributes:
        report: The worker's report.
        receipt: Argument of `acknowledge`.
        known: Expected answer of a spot check, whose report is for no search. Empty otherwise.
        unread: Reason why the worker's report cannot be read; `report` then says that its job is lost. Empty otherwise.
    """

    report: AnyReport
    receipt: str
    known: str = ""
    unread: str = ""


@dataclass(frozen=True)
class _Entry:
    """An entry in a worker's stream of reports."""

    worker: str
    id: str
    fields: dict[str, str]

    @property
    def receipt(self) -> str:
        return f"{self.worker}:{self.id}:"


class Dispatcher:
    """Sends jobs to workers and collects their reports.

    Attributes:
        redis_url: Address of Redis, with its credential.
    """

    def __init__(self, redis_url: str, *, redeliver_ms: int = REDELIVER_MS, alone: bool = True) -> None:
        """Prepare; nothing is sent yet.

        Args:
            redis_url: Address of Redis, with its credential.
            redeliver_ms: Milliseconds after which an unacknowledged report is delivered again.
            alone: True if no other coordinator runs. The first collection then delivers all unacknowledged reports,
                which are left from an earlier process.
        """
        self.redis_url = redis_url
        self._redis = Redis.from_url(
            redis_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=ANSWER_S,
            retry=Retry(backoff(), RETRIES),
        )
        self._submit = self._redis.register_script(script("submit"))
        self._forget = self._redis.register_script(script("forget"))
        self._accept = self._redis.register_script(script("accept"))
        self._settle_host = self._redis.register_script(script("settle"))
        self._refused: Counter[str] = Counter()
        self._redeliver_ms = redeliver_ms
        self.forwarding, self.stats = ReportForwarding(self._redis), QueueStats(self._redis)
        self._shares: dict[str, tuple[str, int]] = {}
        self._look_behind_at: float | None = None if alone else 0.0
        self._grouped: set[str] = set()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    def share(self, search: str, owner: str, priority: int) -> None:
        """Set the owner and the priority of a search, for all of its jobs that are sent from now on.

        Args:
            search: Id of the search.
            owner: Its owner. Owners take equal turns in a queue, however many searches they have there.
            priority: Its share of its owner's turns, 1 to 9.
        """
        self._shares[search] = (owner, priority)

    async def submit(self, job: Job, *, reserved: bool = False) -> None:
        """Queue a job. One that is queued or leased already is not queued twice.

        Args:
            job: The job.
            reserved: True if only trusted workers may do it; confirms and references are always reserved.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        await self.submit_all([(job, reserved)])

    async def submit_all(self, jobs: Iterable[tuple[Job, bool]]) -> None:
        """Queue pairs of a job and its `reserved` as `submit` does, in their order and in one round trip.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        with translated():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for job, reserved in jobs:
                    queue, text = JobQueue.of(job, reserved=reserved), job.model_dump_json()
                    owner, priority = self._shares.get(job.search, NO_SHARE)
                    await self._submit(args=[queue.name, job.search, job.id, text, owner, priority], client=pipeline)
                await pipeline.execute()

    async def cancel(self, search: str) -> None:
        """Drop all jobs of a search. Workers that hold one notice at their next heartbeat.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            queues = await queues_in(self._redis)
            async with self._redis.pipeline(transaction=True) as pipeline:
                for queue in queues:
                    pipeline.delete(queue.jobs(search), queue.ids(search), queue.errors(search))
                    pipeline.zrem(queue.fair_shares, search)
                    pipeline.hdel(queue.priorities, search)
                await pipeline.execute()
        self._shares.pop(search, None)

    async def outstanding(self, search: str) -> set[str]:
        """Return the ids of the queued and leased jobs of a search.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            queues = await queues_in(self._redis)
            async with self._redis.pipeline(transaction=False) as pipeline:
                for queue in queues:
                    pipeline.hkeys(queue.ids(search))
                held = await pipeline.execute()
        return {job for jobs in held for job in jobs}

    async def collect(self, count: int = 64, block_ms: int = 1_000) -> list[Delivery]:
        """Collect reports, waiting for some if there are none. Each is delivered again until it is acknowledged.

        A trusted worker's report that cannot be read, or has another protocol, is delivered as a lost job. It is
        dropped if it does not identify its job, or names another worker than the owner of its stream. A remote
        worker's report is dropped if it cannot be read, or if the worker does not hold the lease of its job.
        `refused` counts these.

        Args:
            count: Maximum number of reports; with more workers than that, one report per worker.
            block_ms: Longest wait, milliseconds, at most `MAX_BLOCK_MS`; 0 does not wait.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            workers = await self._reporting()
            if not workers:
                await asyncio.sleep(block_ms / 1000)
                return []
            try:
                entries = await self._left_behind(workers, count) or await self._new(workers, count, block_ms)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self._grouped.clear()
                return []
            return [delivery for entry in entries if (delivery := await self._receive(entry)) is not None]

    async def acknowledge(self, receipts: Sequence[str]) -> None:
        """Delete reports whose content is committed.

        Raises:
            QueueUnavailable: If Redis does not answer; the reports then come again.
        """
        with translated():
            await self._settle(receipts)

    def refused(self) -> Counter[str]:
        """Return the number of dropped reports of each remote worker since the last call."""
        refused, self._refused = self._refused, Counter()
        return refused

    async def workers(self) -> list[WorkerStatus]:
        """Return the status of every worker that renewed it within its lease time, by id.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            ids = await self._worker_ids()
            async with self._redis.pipeline(transaction=False) as pipeline:
                for worker in ids:
                    pipeline.getrange(worker_key(worker), 0, STATUS_BYTES)
                texts = await pipeline.execute()
        found = ((worker, _status(text)) for worker, text in zip(ids, texts, strict=True) if text)
        return [status for worker, status in found if status is not None and status.id == worker]

    async def _worker_ids(self) -> list[str]:
        return sorted(str(worker) for worker in await self._redis.smembers(WORKERS))

    async def _reporting(self) -> list[str]:
        """Return all workers, after creating the consumer groups of new ones."""
        workers = await self._worker_ids()
        for worker in workers:
            if worker not in self._grouped:
                await _group(self._redis, reports_key(worker))
                self._grouped.add(worker)
        return workers

    async def _left_behind(self, workers: Sequence[str], count: int) -> list[_Entry]:
        """Return reports that were delivered and not acknowledged in time. Checks only every `redeliver_ms` / 2."""
        now = time.monotonic()
        if self._look_behind_at is not None and now < self._look_behind_at:
            return []
        idle_ms = 0 if self._look_behind_at is None else self._redeliver_ms
        async with self._redis.pipeline(transaction=False) as pipeline:
            for worker in workers:
                pipeline.xautoclaim(reports_key(worker), REPORT_GROUP, CONSUMER, idle_ms, count=count)
            claimed = await pipeline.execute()
        async with self._redis.pipeline(transaction=False) as pipeline:
            for worker in workers:
                await self._forget(args=[worker], client=pipeline)
            forgotten = await pipeline.execute()
        self._grouped -= {worker for worker, gone in zip(workers, forgotten, strict=True) if gone}
        found = [
            _Entry(worker, entry, fields)
            for worker, (_, entries, *_) in zip(workers, claimed, strict=True)
            for entry, fields in entries
        ]
        self._look_behind_at = now + self._redeliver_ms / 2000
        return found

    async def _new(self, workers: Sequence[str], count: int, block_ms: int) -> list[_Entry]:
        streams: dict[Any, Any] = {reports_key(worker): ">" for worker in workers if worker in self._grouped}
        if not streams:
            return []
        block = min(block_ms, MAX_BLOCK_MS) or None
        each = max(1, count // len(streams))
        read: Any = await self._redis.xreadgroup(REPORT_GROUP, CONSUMER, streams, count=each, block=block)
        return [_Entry(worker_of(stream), entry, fields) for stream, entries in read for entry, fields in entries]

    async def _settle(self, receipts: Iterable[str]) -> None:
        ours: dict[str, list[str]] = {}
        async with self._redis.pipeline(transaction=False) as pipeline:
            for receipt in receipts:
                worker, entry, job = receipt.split(":", 2)
                if is_host(worker):
                    await self._settle_host(args=[worker, entry, job], client=pipeline)
                else:
                    ours.setdefault(worker, []).append(entry)
            for worker, entries in ours.items():
                pipeline.xack(reports_key(worker), REPORT_GROUP, *entries)
                pipeline.xdel(reports_key(worker), *entries)
            await pipeline.execute()

    async def _receive(self, entry: _Entry) -> Delivery | None:
        """Read a report. Drops it and returns None if it must not count."""
        text = entry.fields.get("report", "")
        try:
            report = REPORT.validate_json(text)
            if report.worker != entry.worker:
                raise ValueError(f"it names the worker {report.worker}")
            check_protocol(report.protocol_version)
            if not is_host(entry.worker):
                return Delivery(report, entry.receipt)
            job, known = await self._accepted(report)
            require_match(job, report)
            return Delivery(report, f"{entry.receipt}{report.job}", known)
        except ValueError as error:
            reason = str(error)[:REASON_CHARS]
            log.error("report cannot be read", worker=entry.worker, entry=entry.id, reason=reason)
            if is_host(entry.worker):
                self._refused[entry.worker] += 1
            elif (told := unread_report(text, reason)) is not None and told.worker == entry.worker:
                return Delivery(told, entry.receipt, unread=reason)
            await self._settle([entry.receipt])
            return None

    async def _accepted(self, report: AnyReport) -> tuple[Job, str]:
        """Return the job of a remote worker's report, as it was handed out, and its expected answer or ''."""
        accepted = await self._accept(args=[report.worker, report.job])
        if accepted is None:
            raise ValueError(f"its worker does not hold the job {report.job}")
        return JOB.validate_json(accepted[0]), str(accepted[1])


async def _group(client: Redis, stream: str) -> None:
    """Create a stream's consumer group unless it exists."""
    try:
        await client.xgroup_create(stream, REPORT_GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


def _status(text: str | bytes) -> WorkerStatus | None:
    """Read a worker's status; None if it is unreadable, such as that of a worker of another version."""
    try:
        return WorkerStatus.model_validate_json(text)
    except ValidationError as error:
        log.warning("a worker's status is unreadable", reason=str(error)[:REASON_CHARS])
        return None
