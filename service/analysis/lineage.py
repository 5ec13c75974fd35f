"""Lineage of a search: every evaluated candidate with its parents and its gain over them.

It reads the archive page by page, so that its memory does not grow with the search.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from archive.records import CandidateRecord, Exchange, SearchRecord
from archive.store import Store
from service.evaluation.jobs import incumbent_of
from service.evaluation.promotion import first_benchmark
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import latest_reports
from service.evaluation.speedups import benchmark_weights, completed, gain, over_pacer, speedup, times_us
from workers.protocol import Outcome, Ratio, Report

PAGE = 100
"""Number of candidates per page: a few queries and a few megabytes."""
PARENTS_KEPT = 256
"""Number of cached parents: elites are parents often, most others never."""


@dataclass(frozen=True)
class DeviceResult:
    """Result of a candidate's best variant on one device.

    Attributes:
        report: The final report on it.
        readings: Readings of its plan for the first benchmark shape, from the trace.
        configuration: Configuration of the variant.
    """

    report: Report
    readings: Mapping[str, Any]
    configuration: Mapping[str, Any]


@dataclass(frozen=True)
class JudgedCandidate:
    """Evaluated candidate with its result on each device where a variant of it was judged."""

    candidate: CandidateRecord
    standings: Mapping[str, DeviceResult]


@dataclass(frozen=True)
class LineageStep:
    """Step of a search: a candidate, its parents, and the exchanges with models that led to it."""

    child: JudgedCandidate
    parents: tuple[JudgedCandidate, ...]
    exchanges: tuple[Exchange, ...]


class Lineage:
    """Steps of one search."""

    def __init__(self, store: Store, search: SearchRecord, baseline_us: Mapping[str, Mapping[str, float]]) -> None:
        self.search = search
        self._store = store
        self._baseline_us = baseline_us
        self._weights = benchmark_weights(search)
        self._parents: OrderedDict[str, JudgedCandidate] = OrderedDict()
        self._seed: JudgedCandidate | None = None

    @classmethod
    async def open(cls, store: Store, search: SearchRecord) -> Self:
        """Read the baselines and the seed that a search's gains are relative to."""
        reference_seed = ReferenceSeed(store)
        lineage = cls(store, search, {name: await reference_seed.baseline_us(search, name) for name in search.devices})
        if (seed := await reference_seed.candidate(search)) is not None:
            lineage._seed = (await lineage.judged([seed.id])).get(seed.id)
        return lineage

    async def steps(self) -> AsyncIterator[LineageStep]:
        """Yield every evaluated candidate in the order of proposals."""
        after = -1
        while page := await self._store.lineage.judged(self.search.id, after=after, limit=PAGE):
            after = page[-1].ordinal
            children = await self._load({candidate.id: candidate for candidate in page})
            self._remember(children.values())
            parents = await self._ancestors({id for candidate in page for id in candidate.parents})
            asked = await self._store.lineage.exchanges(self.search.id, page)
            for child in children.values():
                known = tuple(parents[parent] for parent in child.candidate.parents if parent in parents)
                await asyncio.sleep(0)  # A page has hundreds of reports; other tasks run between two steps.
                yield LineageStep(child, known, tuple(asked.get(child.candidate.id, ())))
            self._forget()

    async def judged(self, ids: Collection[str]) -> dict[str, JudgedCandidate]:
        """Return candidates with their results, by id; unknown ids are left out."""
        return await self._load(await self._store.lineage.candidates(ids))

    def over_parents(self, step: LineageStep, device: str) -> tuple[Ratio, JudgedCandidate] | None:
        """Return a child's gain over its best parent on a device, and that parent; None unless both are correct."""
        found = [
            (ratio, parent) for parent in step.parents if (ratio := self.over(step.child, parent, device)) is not None
        ]
        return min(found, key=lambda pair: pair[0].mid, default=None)

    def over_seed(self, judged: JudgedCandidate, device: str) -> Ratio | None:
        """Return a candidate's gain over the search's reference seed on a device; None unless both are correct."""
        return None if self._seed is None else self.over(judged, self._seed, device)

    def over(self, child: JudgedCandidate, parent: JudgedCandidate, device: str) -> Ratio | None:
        """Return the parent's time divided by the child's, with bounds; None unless both are correct and timed there.

        If the two were measured in a paired timing, that counts. Otherwise the bounds combine the worst cases of two
        speedups over the same pacer.
        """
        here, there = child.standings.get(device), parent.standings.get(device)
        if here is None or there is None:
            return None
        mine, theirs = here.report, there.report
        if mine.outcome is not Outcome.CORRECT or theirs.outcome is not Outcome.CORRECT:
            return None
        if not mine.device.measures:
            return speedup(mine, times_us(theirs), self._weights)
        if mine.rival is not None and incumbent_of(mine) == theirs.bundle:
            return mine.rival
        own, other = over_pacer(mine, self._weights), over_pacer(theirs, self._weights)
        if own is None or other is None:
            return None
        return Ratio(low=own.low / other.high, mid=own.mid / other.mid, high=own.high / other.low)

    async def _ancestors(self, ids: Collection[str]) -> dict[str, JudgedCandidate]:
        missing = await self.judged([id for id in ids if id not in self._parents])
        self._remember(missing.values())
        for id in ids:
            if id in self._parents:
                self._parents.move_to_end(id)
        return {id: self._parents[id] for id in ids if id in self._parents}

    def _remember(self, judged: Iterable[JudgedCandidate]) -> None:
        self._parents.update((item.candidate.id, item) for item in judged)

    def _forget(self) -> None:
        while len(self._parents) > PARENTS_KEPT:
            self._parents.popitem(last=False)

    async def _load(self, candidates: Mapping[str, CandidateRecord]) -> dict[str, JudgedCandidate]:
        """Load the results of candidates: their best reports, with configuration and readings."""
        lineage, ids = self._store.lineage, list(candidates)
        documents = await lineage.reports(ids)
        best = {
            id: self._best(
                [completed(Report.model_validate_json(text), self.search) for text in documents[id].values()]
            )
            for id in candidates
        }
        variants = await lineage.variants(ids)
        bundles = {report.bundle for reports in best.values() for report in reports}
        readings = await lineage.readings(list(bundles))
        first = first_benchmark(self.search)

        def standing(report: Report) -> DeviceResult:
            variant = variants.get((report.candidate, report.variant))
            plans = readings.get(report.bundle, ())
            return DeviceResult(
                report, plans[first] if len(plans) > first else {}, {} if variant is None else variant.configuration
            )

        return {
            id: JudgedCandidate(candidate, {report.device.name: standing(report) for report in best[id]})
            for id, candidate in candidates.items()
        }

    def _best(self, reports: Sequence[Report]) -> list[Report]:
        """Return the final report per device on the best variant, or on the first one if none is correct."""
        by_device: dict[str, list[Report]] = {}
        for report in latest_reports(reports):
            by_device.setdefault(report.device.name, []).append(report)
        return [max(found, key=self._rank) for found in by_device.values()]

    def _rank(self, report: Report) -> tuple[bool, float]:
        seed_us = self._baseline_us.get(report.device.name, {})
        found = gain(report, seed_us, self._weights) or over_pacer(report, self._weights)
        return report.outcome is Outcome.CORRECT, 0.0 if found is None else found.low
