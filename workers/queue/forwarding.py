"""Reports that one coordinator collected and another has to apply: a stream a search, read by whoever runs it.

A worker's reports lie in one stream, whatever searches they are about, and come to any coordinator that asks. One that
does not run the search puts the report here before it is taken out of the worker's stream: it is never in neither.
They need no group, for a search is run by one coordinator at a time, and applying a report twice changes nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from workers.protocol import REPORT, AnyReport
from workers.queue.connection import script, translated
from workers.queue.keys import RETURNED, returned_key


@dataclass(frozen=True)
class ForwardedReport:
    """A report that was handed over, and its entry among those of its search."""

    report: AnyReport
    entry: str


class ReportForwarding:
    """Hands reports from one coordinator to another."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._settle = redis.register_script(script("settle_returned"))

    async def give(self, reports: Sequence[AnyReport]) -> None:
        """Put reports before whoever runs their searches. Acknowledge them afterwards only.

        Raises:
            QueueUnavailable: If Redis does not answer; the reports then come again.
        """
        with translated():
            async with self._redis.pipeline(transaction=True) as pipeline:
                for report in reports:
                    pipeline.xadd(returned_key(report.search), {"report": report.model_dump_json()})
                    pipeline.sadd(RETURNED, report.search)
                await pipeline.execute()

    async def given(self, searches: Collection[str], count: int = 64) -> list[ForwardedReport]:
        """Return the unsettled forwarded reports of these searches, oldest first, at most `count` of each.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        with translated():
            waiting = sorted(str(search) for search in await self._redis.smembers(RETURNED) if search in searches)
            if not waiting:
                return []
            async with self._redis.pipeline(transaction=False) as pipeline:
                for search in waiting:
                    pipeline.xrange(returned_key(search), count=count)
                found: list[Any] = await pipeline.execute()
        return [
            ForwardedReport(REPORT.validate_json(fields["report"]), entry)
            for entries in found
            for entry, fields in entries
        ]

    async def settle(self, handed: Sequence[ForwardedReport]) -> None:
        """Let go of reports that are applied.

        Raises:
            QueueUnavailable: If Redis does not answer; the reports then come again.
        """
        with translated():
            for search in {each.report.search for each in handed}:
                await self._settle(args=[search, *(each.entry for each in handed if each.report.search == search)])
