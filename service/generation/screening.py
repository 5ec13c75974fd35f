"""Screening: all edits of the elites are ranked by a surrogate model of this search, and the best is taken.

It decides only which edit is tried; a kernel's report alone decides its objective. An edit is described by its rules
and numbers, so that hundreds are ranked before any source is written. Some proposals are blind, made without screening:
from them the model learns where it is wrong, and a comparison with the others shows the effect of screening.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from archive.records import CandidateRecord, CandidateState, SearchRecord
from archive.store import Store
from kernelreef.models import ScreeningReport
from service.emitters.base import Edit, Parent
from service.emitters.cross import DEVICE, Cross
from service.emitters.rewrite import JOINT, Rewrite
from service.emitters.tune import Tune, read
from service.generation.emitter_stats import EmitterStats
from service.generation.surrogate import FEWEST, Features, Surrogate, features

TAKEN = 64
"""Maximum number of edits tried until one gives a source that is new to the search; after that, proposals are made
without screening."""
STARTS = 32
"""Number of best elites whose edits are ranked."""
BLIND_SHARE = 0.2
"""Share of proposals made without screening."""
SEEN = 192
"""Number of newest evaluated candidates that the model learns from: three emitters' windows of the bandit."""
NUMBERS = (Tune.name, Cross.name)
"""Emitters that change numbers or join parts of known texts."""
REMEMBERED = 8192
"""Maximum number of cached candidate features, some kilobytes each, over all searches."""


class RankedEdit(NamedTuple):
    """Edit, with its emitter and its parent."""

    emitter: str
    parent: Parent
    edit: Edit


class _CandidateFeatures(NamedTuple):
    """Features of an evaluated candidate, which never change."""

    parameters: Mapping[str, int]
    trail: frozenset[str]
    step: tuple[str, str]
    objective: float | None


class Screening:
    """Ranks edits by what the archive holds. Its cache holds only facts that never change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _CandidateFeatures] = OrderedDict()

    async def rank(self, search: SearchRecord, target: str, offered: Sequence[RankedEdit]) -> list[RankedEdit]:
        """Return the untried edits, the most promising first; none while too few candidates are evaluated.

        Args:
            search: The search.
            target: Target that its candidates are compiled for.
            offered: Edits of evaluated candidates.
        """
        latest = await self._store.candidates.latest(search.id, SEEN)
        if len(latest) < FEWEST:
            return []
        known = await self._look_up(target, {*latest, *(each.parent.candidate for each in offered)})
        judged = [known[id] for id in latest if id in known]
        model = Surrogate([(features(each.parameters, sorted(each.trail)), each.objective) for each in judged])
        gone = {each.step for each in judged}
        left = [each for each in offered if (each.parent.candidate, each.edit.note) not in gone]
        if not model.is_ready:
            return []
        scores = model.acquisition([_features(each.edit, known.get(each.parent.candidate)) for each in left])
        return [left[place] for place in sorted(range(len(left)), key=lambda place: -scores[place])]

    async def _look_up(self, target: str, ids: set[str]) -> dict[str, _CandidateFeatures]:
        """Return features by candidate id; missing ones are read, with all their ancestors."""
        read_now: dict[str, CandidateRecord] = {}
        missing = {id for id in ids if id and id not in self._known}
        while missing:
            read_now |= await self._store.lineage.candidates(sorted(missing))
            kin = {parent for id in missing & read_now.keys() for parent in read_now[id].parents}
            missing = kin - self._known.keys() - read_now.keys()
        found = {id: self._known[id] for id in ids & self._known.keys()}
        for candidate in sorted(read_now.values(), key=lambda each: each.ordinal):
            trails = [self._trail(parent, found) for parent in candidate.parents]
            found[candidate.id] = _CandidateFeatures(
                await _parameters(candidate.source, target),
                trail_of(candidate, trails),
                (next(iter(candidate.parents), ""), candidate.note),
                candidate.objective,
            )
            if candidate.state is CandidateState.JUDGED:
                self._known[candidate.id] = found[candidate.id]
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    def _trail(self, id: str, found: Mapping[str, _CandidateFeatures]) -> frozenset[str]:
        known = found.get(id) or self._known.get(id)
        return known.trail if known else frozenset()


def trail_of(candidate: CandidateRecord, trails: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the rules on a candidate's path from a seed, and each text on it that no rule made, by its ordinal.

    Args:
        candidate: The candidate.
        trails: Trails of its parents, in order.
    """
    first = trails[0] if trails else frozenset[str]()
    if candidate.emitter == Rewrite.name:
        return first.union(candidate.note.split(JOINT))
    if candidate.note == DEVICE:
        return first.union(*trails)
    written = candidate.emitter not in NUMBERS
    return first | {f"{candidate.emitter} {candidate.ordinal}"} if written else first


def is_blind(search: SearchRecord, ordinal: int) -> bool:
    """Return True if a proposal of a search with screening is made without it."""
    return ordinal < FEWEST or random.Random(f"{search.seed}:{ordinal}:unseen").random() < BLIND_SHARE


def screening_report(search: SearchRecord, stats: EmitterStats) -> ScreeningReport:
    """Report on screening over the trials in the emitter statistics."""
    trials = (trial for found in stats.trials.values() for trial in found)
    return screened_of((is_blind(search, trial.ordinal), trial.gain is not None) for trial in trials)


def screened_of(tried: Iterable[tuple[bool, bool]]) -> ScreeningReport:
    """Count evaluated proposals, each given as two flags: blind, and won a cell."""
    told = list(tried)
    chosen, blind = ([won for unseen, won in told if unseen is kind] for kind in (False, True))
    rate = sum(blind) / len(blind) if blind else 0.0
    return ScreeningReport(
        chosen=len(chosen),
        chosen_promotions=sum(chosen),
        blind=len(blind),
        blind_promotions=sum(blind),
        saved=sum(chosen) / rate - len(chosen) if rate else None,
    )


async def _parameters(source: str, target: str) -> Mapping[str, int]:
    """Read the parameters of a source in a thread, as it takes ten milliseconds."""
    found = await asyncio.to_thread(read, source, target)
    return {item.name: item.value for item in found if item.value is not None}


def _features(edit: Edit, start: _CandidateFeatures | None) -> Features:
    """Return the features of an edit's result."""
    parameters, trail = (start.parameters, start.trail) if start else ({}, frozenset[str]())
    return features({**parameters, **edit.values}, sorted(trail.union(edit.rules)))
