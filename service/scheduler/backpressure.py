"""How many candidates may be on their way: limits for a search, for its owner and in all, and what the queue can take.

Proposing is what feeds everything behind it, so this is where a full queue is felt: nothing more is proposed, and no
model is asked, while workers or we ourselves cannot keep up.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from archive.records import SearchFingerprint, SearchRecord
from service.evaluation.jobs import traced_at
from workers.queue import Dispatcher

LOOK_S = 1.0
"""Seconds between two looks at the queue."""
DEEP_PER_WORKER = 4
"""Jobs waiting for each worker of a lane beyond which more are of no use to it."""
REPORTS_LAG = 1_000
"""Reports waiting beyond which we are behind ourselves: a few seconds' worth."""


@dataclass(frozen=True)
class CandidateLimits:
    """Most candidates on their way: of one search, of all searches of one owner, and of everybody."""

    per_search: int
    per_owner: int
    in_all: int


class InFlightLimits:
    """What each search may add now."""

    def __init__(self, dispatcher: Dispatcher, limits: CandidateLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._owners: Counter[str] = Counter()
        self._total = 0
        self._deep: frozenset[str] = frozenset()
        self._lagging = False
        self._look_at = 0.0

    async def look(self, marks: Iterable[SearchFingerprint]) -> None:
        """See what is on its way.

        Args:
            marks: All open searches.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        self._owners.clear()
        for mark in marks:
            self._owners[mark.owner] += mark.in_flight
        self._total = self._owners.total()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._lagging = await self._dispatcher.vitals.reports_waiting() > REPORTS_LAG
            self._deep = await self._find_deep()

    def free(self, search: SearchRecord, in_flight: int) -> int:
        """Candidates that a search may add; a lane that is deep leaves each search one at a time.

        Args:
            search: Which search.
            in_flight: How many it has on their way.
        """
        if self._lagging:
            return 0
        most = 1 if self._deep.intersection(_places(search)) else self._limits.per_search
        room = min(self._limits.per_owner - self._owners[search.owner], self._limits.in_all - self._total)
        return max(0, min(most - in_flight, room))

    def add(self, search: SearchRecord, candidates: int) -> None:
        """Count candidates that a search has added since the last look."""
        self._owners[search.owner] += candidates
        self._total += candidates

    async def _find_deep(self) -> frozenset[str]:
        """Places where more jobs wait than their workers need."""
        waiting: Counter[str] = Counter()
        for stream, jobs in (await self._dispatcher.vitals.depth()).items():
            lane = stream.rpartition(":")[0]
            waiting[lane.rpartition(":")[0]] += jobs
        served: Counter[str] = Counter()
        for worker in await self._dispatcher.workers():
            served.update(place for place in (worker.target, worker.device) if place)
        floor = self._limits.per_search
        return frozenset(place for place, jobs in waiting.items() if jobs > floor + DEEP_PER_WORKER * served[place])


def _places(search: SearchRecord) -> set[str]:
    """Where a search's jobs go: its devices, and where candidates are traced for them."""
    return {*search.devices, traced_at(search)}
