"""The service's side of the queue: send jobs, collect reports, know what is on its way."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.exceptions import ResponseError

from workers.protocol import REASON_CHARS, REPORT, AnyReport, ConfirmJob, MeasureJob, TraceJob
from workers.queue.connection import ANSWER_S, MAX_BLOCK_MS, RETRIES, backoff, script, translated
from workers.queue.keys import LANES, REPORT_GROUP, WORKERS, Lane, reports_key, worker_key, worker_of
from workers.queue.status import WorkerStatus

REDELIVER_MS = 5_000
"""A report not acknowledged for this long is delivered again: longer than the commits of one collection."""
CONSUMER = "coordinator"
"""One name for every coordinator: what one leaves behind is the next one's own."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Delivery:
    """A report and the receipt to acknowledge it by, once what it says is committed."""

    report: AnyReport
    receipt: str


@dataclass(frozen=True)
class _Entry:
    """A report as it lies in a worker's stream."""

    worker: str
    id: str
    fields: dict[str, str]

    @property
    def receipt(self) -> str:
        return f"{self.worker}:{self.id}"


class Dispatcher:
    """Sends jobs to workers and collects their reports."""

    def __init__(self, redis_url: str, *, redeliver_ms: int = REDELIVER_MS) -> None:
        """Prepare; nothing is sent yet.

        Args:
            redis_url: Address of Redis, with its credential.
            redeliver_ms: Milliseconds after which an unacknowledged report is delivered again. The first collection
                delivers all of them, for they are what an earlier coordinator left behind.
        """
        self._redis = Redis.from_url(
            redis_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=ANSWER_S,
            retry=Retry(backoff(), RETRIES),
        )
        self._submit = self._redis.register_script(script("submit"))
        self._forget = self._redis.register_script(script("forget"))
        self._redeliver_ms = redeliver_ms
        self._look_behind_at: float | None = None
        self._grouped: set[str] = set()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def submit(self, job: TraceJob | MeasureJob | ConfirmJob) -> None:
        """Queue a job. One that is queued or leased already is not queued twice.

        Raises:
            QueueUnavailable: If Redis does not answer; calling again is harmless.
        """
        with translated():
            await self._submit(args=[Lane.of(job).name, job.search, job.id, job.model_dump_json()])

    async def cancel(self, search: str) -> None:
        """Drop all jobs of a search. Workers that hold one learn it at their next heartbeat.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            lanes = await self._lanes()
            async with self._redis.pipeline(transaction=True) as pipeline:
                for lane in lanes:
                    pipeline.delete(lane.jobs(search), lane.ids(search), lane.mishaps(search))
                    pipeline.zrem(lane.served, search)
                await pipeline.execute()

    async def outstanding(self, search: str) -> set[str]:
        """Ids of the jobs of a search that are queued or leased.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            lanes = await self._lanes()
            async with self._redis.pipeline(transaction=False) as pipeline:
                for lane in lanes:
                    pipeline.hkeys(lane.ids(search))
                held = await pipeline.execute()
        return {job for jobs in held for job in jobs}

    async def collect(self, count: int = 64, block_ms: int = 1_000) -> list[Delivery]:
        """Take reports in, waiting for some if there are none. Each comes back until it is acknowledged.

        A report that cannot be read, or that names another worker than the one whose stream it is in, is dropped.

        Args:
            count: Most reports taken from one worker.
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
            deliveries, unreadable = _deliveries(entries)
            await self._settle(unreadable)
        return deliveries

    async def acknowledge(self, receipts: Sequence[str]) -> None:
        """Let go of reports whose content is committed.

        Raises:
            QueueUnavailable: If Redis does not answer; the reports then come again.
        """
        with translated():
            await self._settle(receipts)

    async def workers(self) -> list[WorkerStatus]:
        """The workers that gave a sign of life within their lease time, by id.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            ids = await self._worker_ids()
            texts = await self._redis.mget([worker_key(worker) for worker in ids]) if ids else []
        return [status for text in texts if text is not None and (status := _status(text))]

    async def depth(self) -> dict[str, int]:
        """How many jobs are queued or leased, by stream: `{lane}:{search}`.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            streams = []
            for lane in await self._lanes():
                streams += [(lane, str(search)) for search in await self._redis.zrange(lane.served, 0, -1)]
            async with self._redis.pipeline(transaction=False) as pipeline:
                for lane, search in streams:
                    pipeline.xlen(lane.jobs(search))
                lengths = await pipeline.execute()
        return {f"{lane.name}:{search}": length for (lane, search), length in zip(streams, lengths, strict=True)}

    async def _lanes(self) -> list[Lane]:
        return sorted((Lane.named(str(name)) for name in await self._redis.smembers(LANES)), key=lambda lane: lane.name)

    async def _worker_ids(self) -> list[str]:
        return sorted(str(worker) for worker in await self._redis.smembers(WORKERS))

    async def _reporting(self) -> list[str]:
        """Workers whose reports can be read; the consumer groups of new ones are made here."""
        workers = await self._worker_ids()
        for worker in workers:
            if worker not in self._grouped:
                await self._group(reports_key(worker))
                self._grouped.add(worker)
        return workers

    async def _group(self, stream: str) -> None:
        try:
            await self._redis.xgroup_create(stream, REPORT_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _left_behind(self, workers: Sequence[str], count: int) -> list[_Entry]:
        """Reports that were delivered before and not acknowledged in time; looked for now and then only."""
        now = time.monotonic()
        if self._look_behind_at is not None and now < self._look_behind_at:
            return []
        idle_ms = 0 if self._look_behind_at is None else self._redeliver_ms
        found = []
        for worker in workers:
            claimed = await self._redis.xautoclaim(reports_key(worker), REPORT_GROUP, CONSUMER, idle_ms, count=count)
            found += [_Entry(worker, entry, fields) for entry, fields in claimed[1]]
            if await self._forget(args=[worker]):
                self._grouped.discard(worker)
        self._look_behind_at = now + self._redeliver_ms / 2000
        return found

    async def _new(self, workers: Sequence[str], count: int, block_ms: int) -> list[_Entry]:
        streams: dict[Any, Any] = {reports_key(worker): ">" for worker in workers if worker in self._grouped}
        if not streams:
            return []
        block = min(block_ms, MAX_BLOCK_MS) or None
        read: Any = await self._redis.xreadgroup(REPORT_GROUP, CONSUMER, streams, count=count, block=block)
        return [_Entry(worker_of(stream), entry, fields) for stream, entries in read for entry, fields in entries]

    async def _settle(self, receipts: Iterable[str]) -> None:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for receipt in receipts:
                worker, _, entry = receipt.rpartition(":")
                pipeline.xack(reports_key(worker), REPORT_GROUP, entry)
                pipeline.xdel(reports_key(worker), entry)
            await pipeline.execute()


def _deliveries(entries: Iterable[_Entry]) -> tuple[list[Delivery], list[str]]:
    """Read reports; what cannot be read comes back as receipts only."""
    deliveries, unreadable = [], []
    for entry in entries:
        try:
            report = REPORT.validate_json(entry.fields.get("report", ""))
            if report.worker != entry.worker:
                raise ValueError(f"it names the worker {report.worker}")
            deliveries.append(Delivery(report, entry.receipt))
        except ValueError as error:
            log.error("report dropped", worker=entry.worker, entry=entry.id, reason=str(error)[:REASON_CHARS])
            unreadable.append(entry.receipt)
    return deliveries, unreadable


def _status(text: str | bytes) -> WorkerStatus | None:
    """Read what a worker says of itself; one of another version may say what we do not know."""
    try:
        return WorkerStatus.model_validate_json(text)
    except ValidationError as error:
        log.warning("a worker's status is unreadable", reason=str(error)[:REASON_CHARS])
        return None
