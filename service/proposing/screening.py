"""Screening: of several proposals the one is stored of which most is expected, learned from this search's reports.

It may reorder and drop; what a kernel is worth, its report alone decides. Some proposals are stored unseen, so that the
model learns where it is wrong, and so that what it saves can be told: chosen proposals are held against these.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archive.records import CandidateState, Search
from archive.store import Store
from service.emitters.base import Proposal
from service.emitters.rewrite import JOINT, Rewrite
from service.emitters.tune import read
from service.judging.promotion import first_benchmark
from service.proposing.ledger import Ledger
from service.proposing.savings import Screened
from service.proposing.worth import FEWEST, Features, Model, features

CHOICES = 6
"""Proposals of which one is stored."""
BLIND_SHARE = 0.2
"""How often the first proposal is stored unseen."""
SEEN = 192
"""Judged candidates that the model learns from, the newest: three emitters' windows of the bandit."""
REMEMBERED = 4096
"""Candidates that are remembered, some kilobytes each, for all searches together."""


class Offered(NamedTuple):
    """A proposal, and the emitter that made it."""

    emitter: str
    proposal: Proposal


class _Known(NamedTuple):
    """What a judged candidate teaches, and what its children are judged by."""

    parameters: Mapping[str, int]
    moves: Sequence[str]
    parent: str | None
    readings: Mapping[str, Any]
    objective: float | None


class Screening:
    """Chooses among proposals by what the archive holds. What it remembers was read there, and never changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def choose(self, search: Search, target: str, offered: Sequence[Offered]) -> int | None:
        """Place of the proposal to store; None while too little is known.

        Args:
            search: Which search.
            target: What its candidates are compiled for.
            offered: Proposals, at least one.
        """
        judged = await self._look_up(search, target, await self._store.candidates.latest(search.id, SEEN))
        asked = [await self._asked(each, target) for each in offered]
        kin = {known.parent for known in (*judged.values(), *asked) if known.parent}
        parents = await self._look_up(search, target, sorted(kin))
        model = Model([(_features(known, parents), known.objective) for known in judged.values()])
        return model.choose([_features(known, parents) for known in asked]) if model.is_ready else None

    async def _look_up(self, search: Search, target: str, ids: Sequence[str]) -> dict[str, _Known]:
        """Candidates by id; those that are not remembered are read."""
        found = {id: self._known[id] for id in ids if id in self._known}
        missing = [id for id in ids if id not in found]
        candidates = await self._store.lineage.candidates(missing)
        variants = await self._store.lineage.variants(missing)
        bundles = {variant.candidate: variant.bundle for variant in reversed(variants.values()) if variant.bundle}
        readings = await self._store.lineage.readings(set(bundles.values()))
        for id, candidate in candidates.items():
            found[id] = _Known(
                await _parameters(candidate.source, target),
                moves_of(candidate.emitter, candidate.note),
                next(iter(candidate.parents), None),
                readings[bundles[id]][first_benchmark(search)] if id in bundles else {},
                candidate.objective,
            )
            if candidate.state is CandidateState.JUDGED:
                self._known[id] = found[id]
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    @staticmethod
    async def _asked(offered: Offered, target: str) -> _Known:
        moves = moves_of(offered.emitter, offered.proposal.note)
        parent = next(iter(offered.proposal.parents), None)
        return _Known(await _parameters(offered.proposal.source, target), moves, parent, {}, None)


def moves_of(emitter: str, note: str) -> Sequence[str]:
    """What was done to a parent: the rules of a rewrite, the emitter's name otherwise."""
    return note.split(JOINT) if emitter == Rewrite.name else (emitter,)


def is_blind(search: Search, ordinal: int) -> bool:
    """Whether a proposal of a search that screens is stored unseen."""
    return ordinal < FEWEST or random.Random(f"{search.seed}:{ordinal}:unseen").random() < BLIND_SHARE


def tell(search: Search, ledger: Ledger) -> Screened:
    """What screening brought among the proposals that accounts remember."""
    trials = (trial for found in ledger.trials.values() for trial in found)
    return Screened.of((is_blind(search, trial.ordinal), trial.gain is not None) for trial in trials)


async def _parameters(source: str, target: str) -> Mapping[str, int]:
    """The numbers of a text; takes ten milliseconds, which a thread spends."""
    found = await asyncio.to_thread(read, source, target)
    return {item.name: item.value for item in found if item.value is not None}


def _features(known: _Known, parents: Mapping[str, _Known]) -> Features:
    parent = parents.get(known.parent or "")
    return features(
        known.parameters, known.moves, parent.readings if parent else {}, parent.objective if parent else None
    )
