"""The reference seed: the operator's first seed kernel, which all times relate to."""

from typing import TypeVar

from archive.records import CandidateRecord, CandidateState, MeasuredBaselines, SearchRecord
from archive.store import Store
from service.evaluation.reports import latest_reports, reports_on
from service.evaluation.speedups import benchmark_weights, gain, over_pacer, scaled, times_us
from workers.protocol import Bundle, Outcome, Ratio, Report

PACERS_KEPT = 64
"""Maximum number of pacers in memory, each a few hundred kilobytes: enough for the searches that run."""

BASELINES_KEPT = 4096
"""Maximum number of baselines in memory, each a few numbers."""

Kept = TypeVar("Kept")


class ReferenceSeed:
    """The first seed of each search: a baseline where times are predicted, a pacer where they are measured."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pacers: dict[tuple[str, str], Bundle] = {}
        self._baseline_us: dict[tuple[str, str], dict[str, float]] = {}
        self._baselines: dict[tuple[str, str], MeasuredBaselines] = {}

    async def baseline_us(self, search: SearchRecord, device: str) -> dict[str, float]:
        """Return the baseline times on a device that does not measure, microseconds by shape key.

        Empty before the reference seed has a correct report there.
        """
        known = self._baseline_us.get((search.id, device))
        if known is not None:
            return known
        seed = await self._seed(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return {}
        if seed.state is CandidateState.JUDGED:
            _keep(self._baseline_us, (search.id, device), times_us(report), BASELINES_KEPT)
        return times_us(report)

    def baselines(self, search: SearchRecord, device: str) -> MeasuredBaselines | None:
        """Return the baselines of a search on a device that measures; None before they are known."""
        # The record in hand may be older than the baselines, which `relate` keeps in memory.
        return search.baselines.get(device) or self._baselines.get((search.id, device))

    async def relate(self, search: SearchRecord, device: str, baselines: MeasuredBaselines) -> bool:
        """Store the baselines of a search, and turn its objectives into those over them. False if it has some.

        Raises:
            ArchiveError: If the archive does not answer.
        """
        related = await self._store.searches.relate(search.id, device, baselines)
        if related:
            _keep(self._baselines, (search.id, device), baselines, BASELINES_KEPT)
        return related

    async def speedup(self, search: SearchRecord, report: Report) -> Ratio | None:
        """Return a report's speedup in the unit of its search's objectives; None if it has none.

        That is over the seed kernel where times are predicted or recorded. Where they are measured it is over the best
        baseline, or over the pacer before the baselines are known.
        """
        device, weights = report.device, benchmark_weights(search)
        if not device.measures:
            return gain(report, await self.baseline_us(search, device.name), weights)
        found, baselines = over_pacer(report, weights), self.baselines(search, device.name)
        return found if found is None or baselines is None else scaled(found, baselines)

    async def pacer(self, search: SearchRecord, device: str) -> Bundle | None:
        """Return the plans that candidates are timed beside on a device that measures, benchmark shapes only.

        None before the reference seed has a correct report there: it is timed without a pacer.
        """
        known = self._pacers.get((search.id, device))
        if known is not None:
            return known
        seed = await self._seed(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return None
        pacer = Bundle.model_validate_json((await self._store.bundles.get(report.bundle)).document).reduced()
        # Before the seed's verdict a confirm may still find one of its variants wrong.
        if seed.state is CandidateState.JUDGED:
            _keep(self._pacers, (search.id, device), pacer, PACERS_KEPT)
        return pacer

    async def paces(self, search: SearchRecord, device: str) -> bool:
        """Return True if the reference seed has its verdict, so that the pacer on this device is final."""
        await self.pacer(search, device)
        return (search.id, device) in self._pacers

    async def report(self, search: SearchRecord, device: str) -> Report | None:
        """Return the report on the seed's first correct variant on a device; None if there is none."""
        seed = await self._seed(search)
        return None if seed is None else await self._correct(seed, device)

    async def _seed(self, search: SearchRecord) -> CandidateRecord | None:
        return next(iter(await self._store.candidates.seeds(search.id)), None)

    async def _correct(self, seed: CandidateRecord, device: str) -> Report | None:
        """Return the report on the seed's first correct variant on a device."""
        reports = latest_reports(await reports_on(self._store, seed.id))
        correct = (report for report in reports if report.outcome is Outcome.CORRECT)
        return next((report for report in correct if report.device.name == device), None)


def _keep(kept: dict[tuple[str, str], Kept], key: tuple[str, str], value: Kept, most: int) -> None:
    """Keep a value, and drop the oldest beyond `most`."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value
