"""Choice of the provisional holders that are confirmed: a confirm takes several times as long as a measurement.

Whoever leads is confirmed at once: over all, at a shape, as a frequent parent, or pinned by a person. The others are
confirmed while the card has nothing to measure, and the best of them at the end of the search. The rest stays
provisional, and every page says so.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from archive.records import EliteRecord, ProvisionalRecord, SearchRecord
from archive.selection import preferred
from archive.store import Store
from service.evaluation.jobs import purpose_of
from service.evaluation.speedups import benchmark_weights
from workers.protocol import Device, Report
from workers.queue import Dispatcher

LOOK_S = 0.5
"""Seconds between two looks at a search that runs: a measurement takes about as long."""
FREQUENT_PARENT = 4
"""Children of a provisional holder above which it is confirmed: by then much rests on it."""
AT_ONCE = 1
"""Confirms in flight for one search and device while candidates are measured, so that these come first."""
LAST_CONFIRMS = 12
"""Confirms at the end of a search beside those of leaders, on each device. On an H100 one took 1.4 s."""


@dataclass(frozen=True)
class DueConfirms:
    """Holders to confirm now, the ids of the search's queued jobs, and True if none is due or pending."""

    holders: Sequence[ProvisionalRecord]
    queued: frozenset[str]
    settled: bool


@dataclass(frozen=True)
class _Holders:
    """Holders of one grid, as they were at a version of it.

    Attributes:
        version: Version of the grid, as `EliteStore.version` gives it.
        held: Its provisional holders, the largest objective first.
        best: Largest objective of its elites; 0 without any.
        paces: By job of a holder: the pacer's time over its time, by shape key. Empty with one benchmark shape.
        fastest: Jobs of the holders that are fastest at one of several shapes.
    """

    version: str
    held: Sequence[ProvisionalRecord]
    best: float
    paces: Mapping[str, Mapping[str, float]]
    fastest: frozenset[str]


class Confirmations:
    """Chooses provisional holders. Its memory only saves work."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._looked_at: dict[str, float] = {}
        self._last: set[tuple[str, str]] = set()
        self._holders: dict[tuple[str, str], _Holders] = {}

    async def look(self, search: SearchRecord, awaits: Callable[[str], bool], *, last: bool = False) -> DueConfirms:
        """Look which holders of a search are to be confirmed; while it runs, at most every `LOOK_S` seconds.

        Args:
            search: The search.
            awaits: Returns True if a confirm or second trace of a candidate is pending.
            last: True once the search has all its candidates.
        """
        measuring = [name for name in search.devices if Device.parse(name).measures]
        if not last and time.monotonic() < self._looked_at.get(search.id, 0.0):
            return DueConfirms((), frozenset(), settled=False)
        self._looked_at[search.id] = time.monotonic() + LOOK_S
        due: list[ProvisionalRecord] = []
        pending, queued = False, set[str]()
        for device in measuring:
            held = (await self._look(search, device)).held
            if held:
                awaited = {holder.candidate for holder in held if awaits(holder.candidate)}
                queued = queued or await self._dispatcher.outstanding(search.id)
                due += await self.choose(search, device, queued, awaited, last=last)
                pending = pending or bool(awaited)
        return DueConfirms(tuple(due), frozenset(queued), settled=not (due or pending))

    def forget(self, search: str) -> None:
        """Have a search looked at again; its confirms at the end are not requested twice."""
        self._looked_at.pop(search, None)
        self._holders = {place: found for place, found in self._holders.items() if place[0] != search}

    async def choose(
        self,
        search: SearchRecord,
        device: str,
        queued: Collection[str],
        awaited: Collection[str],
        *,
        last: bool = False,
    ) -> list[ProvisionalRecord]:
        """Choose the holders to confirm now, those that lead first.

        Args:
            search: The search.
            device: A device that measures.
            queued: Ids of the search's jobs in the queue.
            awaited: Candidates whose confirm or second trace is pending.
            last: True once the search has all its candidates.
        """
        now = await self._look(search, device)
        free = [holder for holder in now.held if holder.candidate not in awaited]
        if not free:
            return []
        if last and (search.id, device) not in self._last:
            self._last.add((search.id, device))
            return free[:LAST_CONFIRMS]
        if len(now.held) - len(free) >= AT_ONCE:
            return []
        leading = await self._leading(search, device, now, free)
        idle = not last and not any(purpose_of(job) == "measure" for job in queued)
        return (leading or free if idle else leading)[:AT_ONCE]

    async def _leading(
        self, search: SearchRecord, device: str, now: _Holders, free: Sequence[ProvisionalRecord]
    ) -> list[ProvisionalRecord]:
        pinned = {id(holder) for holder in preferred(free, await self._store.pins.list(search.id, device))}
        visits = await self._store.elites.visits(search.id, device, search.axes_version)
        return [
            holder
            for holder in free
            if holder.objective > now.best
            or holder.job in now.fastest
            or visits.get(holder.cell, 0) > FREQUENT_PARENT
            or id(holder) in pinned
        ]

    async def _look(self, search: SearchRecord, device: str) -> _Holders:
        """Return the holders of a grid; they are read again only if one of them has changed."""
        place, grid = (search.id, device), (search.id, device, search.axes_version)
        before, version = self._holders.get(place), await self._store.elites.version(*grid)
        if before is not None and before.version == version:
            return before
        held, elites = await self._store.provisional.list(*grid), await self._store.elites.list(*grid)
        holders: list[EliteRecord | ProvisionalRecord] = [*elites, *held]
        paces = await self._paces(search, holders, before.paces if before else {}) if held else {}
        shapes = benchmark_weights(search) if paces else {}
        fastest = {max(paces, key=lambda job: paces[job].get(shape, 0.0)) for shape in shapes}
        best = max((elite.objective for elite in elites), default=0.0)
        # The version was read first: a change in between is noticed at the next look.
        self._holders[place] = _Holders(version, held, best, paces, frozenset(fastest))
        return self._holders[place]

    async def _paces(
        self,
        search: SearchRecord,
        holders: Sequence[EliteRecord | ProvisionalRecord],
        before: Mapping[str, Mapping[str, float]],
    ) -> dict[str, Mapping[str, float]]:
        """Return how fast present holders are at each of several shapes; reports read before are not read again."""
        if len(benchmark_weights(search)) == 1:
            return {}
        paces = {holder.job: before.get(holder.job, {}) for holder in holders}
        unknown = paces.keys() - before.keys()
        for job, document in (await self._store.views.documents(unknown)).items() if unknown else ():
            paces[job] = _paces(Report.model_validate_json(document))
        return paces


def _paces(report: Report) -> dict[str, float]:
    """Return the pacer's time over the variant's, by shape key."""
    return {
        result.shape: result.pacer_us / result.mid_us for result in report.shapes if result.pacer_us and result.mid_us
    }
