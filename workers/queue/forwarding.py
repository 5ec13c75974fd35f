"""Forwarding of reports between coordinators: one stream per search, read by the coordinator that runs it.

Reports on all searches share one stream per worker, and any coordinator may collect them. A coordinator that does not
run the search adds the report here before it deletes it from the worker's stream, so that no report is lost between
the two. The streams need no consumer group: one coordinator at a time runs a search, and applying a report twice
changes nothing.
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
    """A forwarded report and the id of its entry in the search's stream."""

    report: AnyReport
    entry: str


class ReportForwarding:
    """Forwards reports from one coordinator to another."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._settle = redis.register_script(script("settle_returned"))

    async def give(self, reports: Sequence[AnyReport]) -> None:
        """Forward reports to the coordinators that run their searches. Acknowledge the reports only after this.

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
        """Delete reports that are applied.

        Raises:
            QueueUnavailable: If Redis does not answer; the reports then come again.
        """
        with translated():
            for search in {each.report.search for each in handed}:
                await self._settle(args=[search, *(each.entry for each in handed if each.report.search == search)])
