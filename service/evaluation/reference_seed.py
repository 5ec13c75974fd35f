"""The reference seed: the operator's first seed kernel that is not refused, which all times relate to."""

import textwrap
from collections.abc import Sequence
from typing import TypeVar

from archive.records import (
    CandidateRecord,
    CandidateState,
    CandidateVerdict,
    MeasuredBaselines,
    ReferenceChange,
    SearchRecord,
)
from archive.store import Store
from service.evaluation.reports import latest_reports, reports_on
from service.evaluation.speedups import benchmark_weights, gain, over_pacer, scaled, times_us
from workers.protocol import Bundle, Outcome, Ratio, Report

PACERS_KEPT = 64
"""Maximum number of pacers in memory, each a few hundred kilobytes: enough for the searches that run."""

BASELINES_KEPT = 4096
"""Maximum number of baselines in memory, each a few numbers."""

REASON_CHARS = 300
"""Maximum length of a seed's reason in a sentence about several: a compiler's dump would hide the next one."""

Key = TypeVar("Key", bound=tuple[object, ...])
Kept = TypeVar("Kept")


class ReferenceSeed:
    """The reference seed of each search: a baseline where times are predicted, a pacer where they are measured.

    All other candidates wait for its verdict. If it is refused, the next seed that is not takes its place, with the
    same transaction.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pacers: dict[tuple[str, int, str], Bundle] = {}
        self._baseline_us: dict[tuple[str, int, str], dict[str, float]] = {}
        self._baselines: dict[tuple[str, str], MeasuredBaselines] = {}
        self._final: dict[tuple[str, int], None] = {}

    async def baseline_us(self, search: SearchRecord, device: str) -> dict[str, float]:
        """Return the baseline times on a device that does not measure, microseconds by shape key.

        Empty before the reference seed has a correct report there.
        """
        key = (search.id, search.reference_seed, device)
        known = self._baseline_us.get(key)
        if known is not None:
            return known
        seed = await self.candidate(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return {}
        if seed.state is CandidateState.JUDGED:
            _keep(self._baseline_us, key, times_us(report), BASELINES_KEPT)
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
        key = (search.id, search.reference_seed, device)
        known = self._pacers.get(key)
        if known is not None:
            return known
        seed = await self.candidate(search)
        report = None if seed is None else await self._correct(seed, device)
        if seed is None or report is None:
            return None
        pacer = Bundle.model_validate_json((await self._store.bundles.get(report.bundle)).document).reduced()
        # Before the seed's verdict a confirm may still find one of its variants wrong.
        if seed.state is CandidateState.JUDGED:
            _keep(self._pacers, key, pacer, PACERS_KEPT)
        return pacer

    async def is_final(self, search: SearchRecord) -> bool:
        """Return True if the reference seed is judged correct, so that others may be timed against it."""
        key = (search.id, search.reference_seed)
        if key not in self._final:
            seed = await self.candidate(search)
            if seed is None or seed.outcome != Outcome.CORRECT:
                return False
            _keep(self._final, key, None, BASELINES_KEPT)
        return True

    async def report(self, search: SearchRecord, device: str) -> Report | None:
        """Return the report on the seed's first correct variant on a device; None if there is none."""
        seed = await self.candidate(search)
        return None if seed is None else await self._correct(seed, device)

    async def candidate(self, search: SearchRecord) -> CandidateRecord | None:
        """Return the reference seed; None if the search has no seeds yet."""
        seeds = await self._store.candidates.seeds(search.id)
        return _reference_of(search, seeds)

    async def change(self, search: SearchRecord, verdict: CandidateVerdict) -> ReferenceChange | None:
        """Return the change of the reference seed that its refusal leads to; None if no other seed is left."""
        seeds = await self._store.candidates.seeds(search.id)
        left = (seed.ordinal for seed in seeds if seed.ordinal > search.reference_seed and not _is_refused(seed))
        following = next(left, None)
        if following is None:
            return None
        earlier = (seed for seed in seeds if seed.ordinal < following)
        reasons = "; ".join(
            _reason(verdict if seed.id == verdict.candidate else seed, seed.ordinal) for seed in earlier
        )
        said = f"figures relate to seed {following}, because {reasons}"
        return ReferenceChange(search.id, search.reference_seed, following, said)

    async def fault(self, search: SearchRecord) -> str:
        """Return the reason why a search has no reference seed to relate to; empty unless its seed is refused."""
        seeds = await self._store.candidates.seeds(search.id)
        reference = _reference_of(search, seeds)
        if reference is None or not _is_refused(reference):
            return ""
        if all(map(_is_refused, seeds)):
            return f"no seed kernel is correct: {'; '.join(_reason(seed, seed.ordinal) for seed in seeds)}"
        return f"the seed that all figures relate to was found wrong: {_reason(reference, reference.ordinal)}"

    async def _correct(self, seed: CandidateRecord, device: str) -> Report | None:
        """Return the report on the seed's first correct variant on a device."""
        reports = latest_reports(await reports_on(self._store, seed.id))
        correct = (report for report in reports if report.outcome is Outcome.CORRECT)
        return next((report for report in correct if report.device.name == device), None)


def _reference_of(search: SearchRecord, seeds: Sequence[CandidateRecord]) -> CandidateRecord | None:
    return next((seed for seed in seeds if seed.ordinal == search.reference_seed), None)


def _is_refused(seed: CandidateRecord) -> bool:
    return seed.state is CandidateState.JUDGED and seed.outcome != Outcome.CORRECT


def _reason(found: CandidateRecord | CandidateVerdict, ordinal: int) -> str:
    """Describe the refusal of a seed in one line."""
    said = textwrap.shorten(found.reason, REASON_CHARS, placeholder=" ...")
    return f"seed {ordinal} is refused ({found.outcome}{f': {said}' if said else ''})"


def _keep(kept: dict[Key, Kept], key: Key, value: Kept, most: int) -> None:
    """Keep a value, and drop the oldest beyond `most`."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value
