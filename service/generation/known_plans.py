"""Known plans: proposals that would compile to plans which a search has already.

Candidates of one program differ in the numbers of its parameters alone. If two of them have equal bundles, the
parameters in which they differ do not matter for that program, as far as is known. A proposal that differs from a
candidate in such parameters alone is not traced. This only decides what is tried. One in `CHECKED` is tried all the
same: a parameter that changes a plan after all is noticed by that.
"""

import asyncio
import hashlib
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from archive.records import SearchRecord
from archive.store import Store
from service.emitters.tune import read, write

CHECKED = 20
"""Proposals per one that is tried although its plan seems known."""
LATEST = 192
"""Number of newest evaluated candidates that are looked at: as many as screening learns from."""
MEMBERS = 48
"""Maximum number of candidates per program that are compared, the newest; every pair is."""
SEARCHES_KEPT = 64
"""Maximum number of searches in memory, some hundred kilobytes each."""

REMEMBERED = 1024
"""Maximum number of sources whose program and values are in memory, a kilobyte each."""

Values = Mapping[str, int | None]
"""Numbers of a candidate's parameters by name; None for a parameter that is not written."""
Plans = tuple[str, ...]
"""Identities of a candidate's bundles, by variant."""


class _Written(NamedTuple):
    """A source as its program, with the parameters left out, and their values."""

    program: str
    values: Values


class _Member(NamedTuple):
    """One candidate of a program."""

    values: Values
    plans: Plans


@dataclass
class _Program:
    """Candidates of one program, the oldest first, and the parameters that do not matter for it."""

    members: list[_Member] = field(default_factory=list)
    idle: frozenset[str] = frozenset()

    def add(self, member: _Member) -> None:
        self.members = [*self.members[1 - MEMBERS :], member]
        self.idle = idle_parameters(self.members)

    def has(self, values: Values) -> bool:
        """Return True if a candidate differs in idle parameters alone."""
        return any(differing(values, member.values) <= self.idle for member in self.members)


@dataclass
class _SearchPrograms:
    """Programs of one search, and the candidates that are in them."""

    programs: dict[str, _Program] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)


class KnownPlans:
    """Recognises proposals whose plans are known. Everything in memory follows from the archive."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._searches: OrderedDict[str, _SearchPrograms] = OrderedDict()

    async def has(
        self, search: SearchRecord, target: str, source: str, rng: random.Random, changed: Values = MappingProxyType({})
    ) -> bool:
        """Return True if a source need not be tried, because the search has its plans as far as is known.

        Args:
            search: The search.
            target: Target that its candidates are compiled for.
            source: Text of the proposal.
            rng: Randomness of the proposal: one in `CHECKED` is tried all the same.
            changed: Values that it has instead of the text's.
        """
        found = await self._look(search, target)
        written = await asyncio.to_thread(_taken_apart, source, target)
        program = found.programs.get(written.program)
        return program is not None and program.has({**written.values, **changed}) and rng.randrange(CHECKED) > 0

    async def _look(self, search: SearchRecord, target: str) -> _SearchPrograms:
        """Return the programs of a search, with all candidates that were evaluated since the last look."""
        found = self._searches.setdefault(search.id, _SearchPrograms())
        self._searches.move_to_end(search.id)
        while len(self._searches) > SEARCHES_KEPT:
            self._searches.popitem(last=False)
        missing = [id for id in await self._store.candidates.latest(search.id, LATEST) if id not in found.seen]
        candidates = await self._store.lineage.candidates(missing) if missing else {}
        for candidate in sorted(candidates.values(), key=lambda each: each.ordinal):
            found.seen.add(candidate.id)
            plans = tuple(variant.bundle or "" for variant in await self._store.candidates.variants(candidate.id))
            if plans and all(plans):
                written = await asyncio.to_thread(_taken_apart, candidate.source, target)
                found.programs.setdefault(written.program, _Program()).add(_Member(written.values, plans))
        return found


def idle_parameters(members: Sequence[tuple[Values, Plans]]) -> frozenset[str]:
    """Return the parameters that do not matter: where they alone differ, plans are equal, and that has been seen."""
    pairs = [(differing(one, other), mine == its) for (one, mine), (other, its) in combinations(members, 2)]
    idle = _joined(names for names, equal in pairs if equal)
    while refuted := _joined(names for names, equal in pairs if not equal and names <= idle):
        idle -= refuted
    return idle


def differing(one: Values, other: Values) -> frozenset[str]:
    """Return the names of the parameters in which two candidates of a program differ."""
    return frozenset(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _joined(names: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*names)


@lru_cache(REMEMBERED)
def _taken_apart(source: str, target: str) -> _Written:
    """Split a source into its program and the values of its parameters."""
    found = read(source, target)
    values = {item.name: item.value for item in found}
    text = write(source, target, {name: 1 for name, value in values.items() if value is not None}) if found else source
    return _Written(hashlib.sha256(text.encode()).hexdigest(), values)
