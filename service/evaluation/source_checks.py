"""Quick checks of sources: a trace with all compilation and assembling, without an evaluation. Nothing is stored.

A check tells what a kernel becomes, or why it cannot be judged. It tells nothing about right or wrong results: only an
evaluation does.
"""

import asyncio
from collections import Counter

from uuid6 import uuid7

from archive.records import SearchRecord
from service.errors import RateLimited, Unavailable
from service.evaluation.jobs import check_job, is_check
from workers.protocol import AnyReport, Operator, TraceReport, patience_s
from workers.queue import Dispatcher

MOST_AT_ONCE = 4
"""Maximum number of checks of one search at once: a check is free of charge, and must not displace evaluations."""
AGAIN_S = 2
"""Seconds after which a refused caller may come again; a check takes about as long."""
QUEUE_S = 60.0
"""Seconds that a check may wait for a worker."""


class SourceChecks:
    """Checks that wait for their reports. They are in memory: a lost one is asked for again by its caller."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._waiting: dict[str, asyncio.Future[TraceReport]] = {}
        self._running: Counter[str] = Counter()

    async def run(self, search: SearchRecord, operator: Operator, source: str) -> TraceReport:
        """Trace a source at the shapes of a search by a trusted worker, and return the report.

        Raises:
            RateLimited: If too many checks of this search run.
            Unavailable: If no report came in time.
            QueueUnavailable: If the queue does not answer.
        """
        if self._running[search.id] >= MOST_AT_ONCE:
            raise RateLimited(f"{MOST_AT_ONCE} checks of this search run already; try again in {AGAIN_S} s", AGAIN_S)
        job = check_job(search, operator, str(uuid7()), source)
        report = self._waiting[job.id] = asyncio.get_running_loop().create_future()
        self._running[search.id] += 1
        try:
            await self._dispatcher.submit(job, reserved=True)
            return await asyncio.wait_for(report, patience_s(job) + QUEUE_S)
        except TimeoutError as error:
            raise Unavailable("no worker checked the source in time; try again") from error
        finally:
            del self._waiting[job.id]
            self._running[search.id] -= 1
            if not self._running[search.id]:
                del self._running[search.id]

    def apply(self, report: AnyReport) -> bool:
        """Hand a report to the caller that waits for it. Returns True if it is about a check, awaited or not."""
        if not isinstance(report, TraceReport) or not is_check(report.job):
            return False
        waiting = self._waiting.get(report.job)
        if waiting is not None and not waiting.done():
            waiting.set_result(report)
        return True
