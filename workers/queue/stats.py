"""Statistics of the queue: its identity, how many jobs wait in it and for how long."""

from collections.abc import Sequence

from redis.asyncio import Redis

from workers.queue.connection import translated
from workers.queue.keys import QUEUES, WORKERS, JobQueue, reports_key


class QueueStats:
    """Statistics by which the service decides to queue more jobs or not."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def life(self) -> str:
        """Return the server's run id. After a restart it is another, and jobs may be lost.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            told = await self._redis.info("server")
        return str(told.get("run_id", ""))

    async def reports_waiting(self) -> int:
        """Return the number of reports that are not acknowledged.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            workers = await self._redis.smembers(WORKERS)
            async with self._redis.pipeline(transaction=False) as pipeline:
                for worker in workers:
                    pipeline.xlen(reports_key(str(worker)))
                return sum(await pipeline.execute())

    async def depth(self) -> dict[str, int]:
        """Count the jobs that are queued or leased, by stream: `{queue}:{search}`.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            streams = await self._streams()
            lengths = await self._lengths(streams)
        return {f"{queue.name}:{search}": length for (queue, search), length in zip(streams, lengths, strict=True)}

    async def ages_s(self) -> dict[str, float]:
        """Return the age of the oldest queued or leased job, seconds, by queue. Queues without jobs are left out.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            streams = await self._streams()
            async with self._redis.pipeline(transaction=False) as pipeline:
                for queue, search in streams:
                    pipeline.xrange(queue.jobs(search), count=1)
                pipeline.time()
                *found, (seconds, micros) = await pipeline.execute()
        ages_s: dict[str, float] = {}
        for (queue, _), oldest in zip(streams, found, strict=True):
            for entry, _ in oldest:
                age_s = seconds + micros / 1e6 - int(entry.partition("-")[0]) / 1e3
                ages_s[queue.name] = max(ages_s.get(queue.name, 0.0), age_s)
        return ages_s

    async def queues_of(self, search: str) -> list[JobQueue]:
        """Return the queues in which a search has queued or leased jobs.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            queues = await queues_in(self._redis)
            lengths = await self._lengths([(queue, search) for queue in queues])
        return [queue for queue, length in zip(queues, lengths, strict=True) if length]

    async def _lengths(self, streams: Sequence[tuple[JobQueue, str]]) -> list[int]:
        """Return the number of queued and leased jobs of each pair of a queue and a search."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for queue, search in streams:
                pipeline.xlen(queue.jobs(search))
            return [int(length) for length in await pipeline.execute()]

    async def _streams(self) -> list[tuple[JobQueue, str]]:
        """Return every queue with each search that has, or had, jobs in it."""
        streams = []
        for queue in await queues_in(self._redis):
            streams += [(queue, str(search)) for search in await self._redis.zrange(queue.fair_shares, 0, -1)]
        return streams


async def queues_in(redis: Redis) -> list[JobQueue]:
    """Return every queue that jobs were sent to, by name."""
    return sorted((JobQueue.named(str(name)) for name in await redis.smembers(QUEUES)), key=lambda queue: queue.name)
