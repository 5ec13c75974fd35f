"""Backpressure: limits on candidates in flight, per search, per owner and in total, and by what the queue can take.

While workers or the coordinator cannot keep up, nothing more is proposed and no language model is asked.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from archive.records import SearchFingerprint, SearchRecord
from service.evaluation.jobs import traced_at
from workers.queue import Dispatcher

LOOK_S = 1.0
"""Seconds between two reads of the queue's depth."""
DEEP_PER_WORKER = 4
"""Number of waiting jobs per worker of a queue beyond which more would only wait."""
REPORTS_LAG = 1_000
"""Number of waiting reports beyond which the coordinator itself is too slow: a few seconds of work."""


@dataclass(frozen=True)
class CandidateLimits:
    """Maximum numbers of candidates in flight: per search, per owner, and in total."""

    per_search: int
    per_owner: int
    in_all: int


class InFlightLimits:
    """Number of candidates that each search may add now."""

    def __init__(self, dispatcher: Dispatcher, limits: CandidateLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._owners: Counter[str] = Counter()
        self._total = 0
        self._deep: frozenset[str] = frozenset()
        self._lagging = False
        self._look_at = 0.0

    async def look(self, fingerprints: Iterable[SearchFingerprint]) -> None:
        """Count the candidates in flight.

        Args:
            fingerprints: All open searches.

        Raises:
            QueueUnavailable: If Redis does not answer.
        """
        self._owners.clear()
        for fingerprint in fingerprints:
            self._owners[fingerprint.owner] += fingerprint.in_flight
        self._total = self._owners.total()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._lagging = await self._dispatcher.stats.reports_waiting() > REPORTS_LAG
            self._deep = await self._find_deep()

    def free(self, search: SearchRecord, in_flight: int) -> int:
        """Return the number of candidates that a search may add; a full queue allows each search one at a time.

        Args:
            search: The search.
            in_flight: Number of its candidates in flight.
        """
        if self._lagging:
            return 0
        most = 1 if self._deep.intersection(_places(search)) else self._limits.per_search
        room = min(self._limits.per_owner - self._owners[search.owner], self._limits.in_all - self._total)
        return max(0, min(most - in_flight, room))

    def add(self, search: SearchRecord, candidates: int) -> None:
        """Count candidates that a search has added since the last `look`."""
        self._owners[search.owner] += candidates
        self._total += candidates

    async def _find_deep(self) -> frozenset[str]:
        """Return the places where more jobs wait than their workers need."""
        waiting: Counter[str] = Counter()
        for stream, jobs in (await self._dispatcher.stats.depth()).items():
            waiting[stream.rsplit(":", 2)[0]] += jobs
        workers: Counter[str] = Counter()
        for worker in await self._dispatcher.workers():
            workers.update(place for place in (worker.target, worker.device) if place)
        floor = self._limits.per_search
        return frozenset(place for place, jobs in waiting.items() if jobs > floor + DEEP_PER_WORKER * workers[place])


def _places(search: SearchRecord) -> set[str]:
    """Return the places that a search's jobs go to: its devices, and the place where its candidates are traced."""
    return {*search.devices, traced_at(search)}
