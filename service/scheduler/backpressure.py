"""Backpressure: limits on candidates in flight, per search, per owner and in total, and by what the queue can take.

While workers or the coordinator cannot keep up, nothing more is proposed and no language model is asked. How many
candidates one search has in flight follows from the workers that are there and from the seconds that its jobs take.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import ceil

from archive.records import SearchFingerprint, SearchRecord
from service.evaluation.jobs import judged_at, target_of, traced_at
from workers.protocol import AnyReport, TraceReport
from workers.queue import Dispatcher, places_of

LOOK_S = 1.0
"""Seconds between two reads of the queue's depth."""
DEEP_PER_WORKER = 4
"""Number of waiting jobs per worker of a queue beyond which more would only wait."""
REPORTS_LAG = 1_000
"""Number of waiting reports beyond which the coordinator itself is too slow: a few seconds of work."""


RECENT_REPORTS = 64
"""Number of reports over which the seconds of a search's jobs are averaged; older ones fade."""
SPARE = 1.25
"""Candidates to be traced per worker that traces: a worker gets its next job before a new proposal is made."""
AHEAD = 2.0
"""Traces per verdict that is due meanwhile: a trace takes between half and several times the mean."""


@dataclass(frozen=True)
class CandidateLimits:
    """Maximum numbers of candidates in flight: per search, per owner, and in total.

    With None per search, `JobSeconds` and the workers that are there decide.
    """

    per_search: int | None
    per_owner: int
    in_all: int


@dataclass
class JobSeconds:
    """Seconds that workers spend per evaluated candidate of one search, as fading sums.

    Attributes:
        tracing: Seconds of all trace jobs, second traces and failed ones included.
        evaluating: Seconds of all other jobs.
        candidates: Number of first evaluations.
    """

    tracing: float = 0.0
    evaluating: float = 0.0
    candidates: float = 0.0

    def add(self, report: AnyReport) -> None:
        """Count one report."""
        for name, value in vars(self).items():
            setattr(self, name, value * (1 - 1 / RECENT_REPORTS))
        spent_s = sum(report.stages_s.values())
        if isinstance(report, TraceReport):
            self.tracing += spent_s
            return
        self.evaluating += spent_s
        self.candidates += report.kind == "measure"

    def in_flight(self, tracers: int, evaluators: int) -> int:
        """Return the number of candidates that keeps all workers busy, at least one per worker that evaluates.

        By Little's law it is the rate times the time in the system. The slower kind of worker sets the rate.

        Args:
            tracers: Number of workers that trace for the search.
            evaluators: Number of workers that evaluate for it.
        """
        if not self.candidates or not self.tracing or not self.evaluating:
            return max(1, tracers + evaluators)
        ratio = self.evaluating / self.tracing
        return max(1, evaluators + 1, ceil(min(tracers * (SPARE + ratio), evaluators * (1 + AHEAD / ratio))))


class InFlightLimits:
    """Number of candidates that each search may add now."""

    def __init__(self, dispatcher: Dispatcher, limits: CandidateLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._owners: Counter[str] = Counter()
        self._total = 0
        self._seconds: dict[str, JobSeconds] = {}
        self._workers: Counter[str] = Counter()
        self._compilers: dict[str, set[str]] = {}
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
        open_searches = {fingerprint.id: fingerprint for fingerprint in fingerprints}
        for fingerprint in open_searches.values():
            self._owners[fingerprint.owner] += fingerprint.in_flight
        self._seconds = {id: seconds for id, seconds in self._seconds.items() if id in open_searches}
        self._total = self._owners.total()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._lagging = await self._dispatcher.stats.reports_waiting() > REPORTS_LAG
            self._workers = await self._count_workers()
            self._deep = await self._find_deep()

    def observe(self, reports: Collection[AnyReport]) -> None:
        """Count the seconds that jobs took."""
        for report in reports:
            self._seconds.setdefault(report.search, JobSeconds()).add(report)

    def free(self, search: SearchRecord, in_flight: int) -> int:
        """Return the number of candidates that a search may add; a full queue allows each search one at a time.

        Args:
            search: The search.
            in_flight: Number of its candidates in flight.
        """
        if self._lagging:
            return 0
        most = 1 if self._deep.intersection(_places(search)) else self.per_search(search)
        room = min(self._limits.per_owner - self._owners[search.owner], self._limits.in_all - self._total)
        return max(0, min(most - in_flight, room))

    def per_search(self, search: SearchRecord) -> int:
        """Return the number of candidates that one search may have in flight while no queue is full."""
        if self._limits.per_search is not None:
            return self._limits.per_search
        evaluators = sum(self._workers[judged_at(search, name)] for name in search.devices)
        return self._seconds.get(search.id, JobSeconds()).in_flight(self._workers[traced_at(search)], evaluators)

    def add(self, search: SearchRecord, candidates: int) -> None:
        """Count candidates that a search has added since the last `look`."""
        self._owners[search.owner] += candidates
        self._total += candidates

    def compilers(self, search: SearchRecord) -> tuple[str, ...]:
        """Return the Triton releases that may compile a search's candidates; empty if no worker is known yet."""
        if search.compiler is not None:
            return (search.compiler,)
        return tuple(sorted(self._compilers.get(target_of(search), ())))

    async def _find_deep(self) -> frozenset[str]:
        """Return the places where more jobs wait than their workers need."""
        waiting: Counter[str] = Counter()
        for stream, jobs in (await self._dispatcher.stats.depth()).items():
            waiting[stream.rsplit(":", 2)[0]] += jobs
        workers, floor = self._workers, self._limits.per_search or DEEP_PER_WORKER
        return frozenset(place for place, jobs in waiting.items() if jobs > floor + DEEP_PER_WORKER * workers[place])

    async def _count_workers(self) -> Counter[str]:
        """Count the workers by place: a target that they trace for, a device that they evaluate on."""
        workers: Counter[str] = Counter()
        self._compilers = {}
        for worker in await self._dispatcher.workers():
            if worker.target and worker.compiler:
                self._compilers.setdefault(worker.target, set()).add(worker.compiler)
            workers.update(places_of(worker.target, worker.device, worker.compiler))
        return workers


def _places(search: SearchRecord) -> set[str]:
    """Return the places that a search's jobs go to: its devices, and the place where its candidates are traced."""
    return {*(judged_at(search, name) for name in search.devices), traced_at(search)}
