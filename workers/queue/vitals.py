"""How the queue is: whether it is the one it was, and whether its reports are taken in."""

from redis.asyncio import Redis

from workers.queue.connection import translated
from workers.queue.keys import WORKERS, reports_key


class Vitals:
    """Looks at the queue, for one that has to decide what more to put into it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def life(self) -> str:
        """Names this life of the server: after a restart it is another, and jobs may be lost.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            told = await self._redis.info("server")
        return str(told.get("run_id", ""))

    async def reports_waiting(self) -> int:
        """Reports that are handed in and not acknowledged.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            workers = await self._redis.smembers(WORKERS)
            async with self._redis.pipeline(transaction=False) as pipeline:
                for worker in workers:
                    pipeline.xlen(reports_key(str(worker)))
                return sum(await pipeline.execute())
