"""Screening: every way on from every elite is ranked by what this search's reports taught, and the best is taken.

It decides what is tried; what a kernel is worth, its report alone decides. A way is told by its rules and numbers, so
that hundreds are ranked before one text is written. Some proposals are stored unseen, made as without screening, so
that the model learns where it is wrong, and so that what it saves can be told: chosen proposals are held against these.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archive.records import CandidateRecord, CandidateState, SearchRecord
from archive.store import Store
from kernelreef.models import ScreeningReport
from service.emitters.base import Edit, Parent
from service.emitters.cross import DEVICE, Cross
from service.emitters.rewrite import JOINT, Rewrite
from service.emitters.tune import Tune, read
from service.generation.emitter_stats import EmitterStats
from service.generation.screening_report import screened_of
from service.generation.surrogate import FEWEST, Features, Surrogate, features

TAKEN = 64
"""The first ways, gone until one leads to a text that is new to the search; else proposals are made as without
screening."""
STARTS = 32
"""Elites, the best, whose ways are ranked."""
BLIND_SHARE = 0.2
"""How often a proposal is stored unseen."""
SEEN = 192
"""Judged candidates that the model learns from, the newest: three emitters' windows of the bandit."""
NUMBERS = (Tune.name, Cross.name)
"""Emitters that change numbers, or join parts of texts that were there."""
REMEMBERED = 8192
"""Candidates whose numbers and trails are remembered, some kilobytes each, for all searches together."""


class RankedEdit(NamedTuple):
    """A way, the emitter that knows it, and the parent that it starts from."""

    emitter: str
    parent: Parent
    edit: Edit


class _CandidateFeatures(NamedTuple):
    """What never changes about a judged candidate."""

    parameters: Mapping[str, int]
    trail: frozenset[str]
    step: tuple[str, str]
    objective: float | None


class Screening:
    """Ranks ways by what the archive holds. What it remembers was read there, and never changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _CandidateFeatures] = OrderedDict()

    async def rank(self, search: SearchRecord, target: str, offered: Sequence[RankedEdit]) -> list[RankedEdit]:
        """Ways that were not gone yet, the one of which most is hoped first; none while too little is known.

        Args:
            search: Which search.
            target: What its candidates are compiled for.
            offered: Ways on from judged candidates.
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
        """Candidates by id; those that are not remembered are read, with all that they came of."""
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
    """The rules on a candidate's way from a seed, and each text on it that no rule made, by its ordinal.

    Args:
        candidate: Which.
        trails: Of its parents, in order.
    """
    first = trails[0] if trails else frozenset[str]()
    if candidate.emitter == Rewrite.name:
        return first.union(candidate.note.split(JOINT))
    if candidate.note == DEVICE:
        return first.union(*trails)
    written = candidate.emitter not in NUMBERS
    return first | {f"{candidate.emitter} {candidate.ordinal}"} if written else first


def is_blind(search: SearchRecord, ordinal: int) -> bool:
    """Whether a proposal of a search that screens is stored unseen."""
    return ordinal < FEWEST or random.Random(f"{search.seed}:{ordinal}:unseen").random() < BLIND_SHARE


def screening_report(search: SearchRecord, stats: EmitterStats) -> ScreeningReport:
    """What screening brought among the proposals that accounts remember."""
    trials = (trial for found in stats.trials.values() for trial in found)
    return screened_of((is_blind(search, trial.ordinal), trial.gain is not None) for trial in trials)


async def _parameters(source: str, target: str) -> Mapping[str, int]:
    """The numbers of a text; takes ten milliseconds, which a thread spends."""
    found = await asyncio.to_thread(read, source, target)
    return {item.name: item.value for item in found if item.value is not None}


def _features(edit: Edit, start: _CandidateFeatures | None) -> Features:
    """What is known of where a way leads."""
    parameters, trail = (start.parameters, start.trail) if start else ({}, frozenset[str]())
    return features({**parameters, **edit.values}, sorted(trail.union(edit.rules)))
