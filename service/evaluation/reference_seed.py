"""What candidates are held against: the operator's first seed, once it was judged."""

from typing import TypeVar

from archive.records import CandidateRecord, CandidateState, SearchRecord
from archive.store import Store
from service.evaluation.promotion import times_us
from service.evaluation.reports import last_words, reports_on
from workers.protocol import Bundle, Outcome, Report

PACERS_KEPT = 64
"""Pacers held in memory, each a few hundred kilobytes: those of the searches that run."""

BASELINES_KEPT = 4096
"""Baselines held in memory, each a few numbers."""

Kept = TypeVar("Kept")


class ReferenceSeed:
    """The first seed of each search: a baseline where times are predicted, a pacer where they are measured."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pacers: dict[tuple[str, str], Bundle] = {}
        self._baselines: dict[tuple[str, str], dict[str, float]] = {}

    async def baseline_us(self, search: SearchRecord, device: str) -> dict[str, float]:
        """Times that speedups are relative to on a device that does not measure, microseconds by shape key.

        Empty before the first seed's verdict.
        """
        known = self._baselines.get((search.id, device))
        if known is not None:
            return known
        seed = await self._seed(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return {}
        if seed.state is CandidateState.JUDGED:
            _keep(self._baselines, (search.id, device), times_us(report), BASELINES_KEPT)
        return times_us(report)

    async def pacer(self, search: SearchRecord, device: str) -> Bundle | None:
        """What candidates are timed beside on a device that measures: benchmark plans only.

        None before the first seed's verdict there, for the first seed paces itself.
        """
        known = self._pacers.get((search.id, device))
        if known is not None:
            return known
        seed = await self._seed(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return None
        pacer = Bundle.model_validate_json((await self._store.bundles.get(report.bundle)).document).reduced()
        # Before its verdict a confirm may still find a variant of the seed wrong.
        if seed.state is CandidateState.JUDGED:
            _keep(self._pacers, (search.id, device), pacer, PACERS_KEPT)
        return pacer

    async def paces(self, search: SearchRecord, device: str) -> bool:
        """Whether the first seed has its verdict, after which nothing changes the pacer on a device that measures."""
        await self.pacer(search, device)
        return (search.id, device) in self._pacers

    async def _seed(self, search: SearchRecord) -> CandidateRecord | None:
        return next(iter(await self._store.candidates.seeds(search.id)), None)

    async def _correct(self, seed: CandidateRecord, device: str) -> Report | None:
        """The report on the seed's first variant that is correct."""
        reports = last_words(await reports_on(self._store, seed.id))
        correct = (report for report in reports if report.outcome is Outcome.CORRECT)
        return next((report for report in correct if report.device.name == device), None)


def _keep(kept: dict[tuple[str, str], Kept], key: tuple[str, str], value: Kept, most: int) -> None:
    """Keep a value, and let go of the oldest if there are too many."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value
