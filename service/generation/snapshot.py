"""Snapshot of a search, read once for a few proposals in a row.

The proposals themselves change one thing in the archive: how often an elite was a parent. That is counted here as well,
so that proposals are the same as if each of them read everything again.
"""

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence

from archive.records import SearchRecord, SelectableElite
from archive.selection import preferred
from archive.store import Store
from service.emitters.base import Parent
from service.evaluation.promotion import first_benchmark
from service.generation.emitter_stats import EmitterStats, read_stats
from workers.protocol import ShapeRole

REMEMBERED = 2048
"""Maximum number of cached elites, some five kilobytes each, over all searches."""


class ParentCache:
    """Elites as emitters need them. A kernel's text and readings never change once it holds a cell."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, SelectableElite], Parent] = OrderedDict()

    async def find(self, search: SearchRecord, elite: SelectableElite) -> Parent:
        """Return an elite with its text, its configuration and its readings at the first benchmark shape."""
        key = (search.id, elite._replace(visits=0))
        if key not in self._known:
            self._known[key] = await self._read(search, elite)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    async def _read(self, search: SearchRecord, elite: SelectableElite) -> Parent:
        candidate = await self._store.candidates.get(elite.candidate)
        variants = await self._store.candidates.variants(elite.candidate)
        readings = await self._store.bundles.readings(elite.bundle)
        document = (await self._store.bundles.get(elite.bundle)).document
        return Parent(
            candidate=candidate.id,
            source=candidate.source,
            configuration=next(item.configuration for item in variants if item.index == elite.variant),
            objective=elite.objective,
            cell=elite.cell,
            readings=readings[first_benchmark(search)],
            launched=await asyncio.to_thread(launched_kernels, document),
        )


def launched_kernels(document: str) -> frozenset[str]:
    """Return the names of the kernels that a bundle launches at benchmark shapes."""
    plans = [plan for plan in json.loads(document)["plans"] if plan["shape"]["role"] == ShapeRole.BENCHMARK]
    return frozenset(step["function"] for plan in plans for step in plan["steps"] if step["op"] == "launch")


class SearchSnapshot:
    """State of one search, valid while only its proposer changes it.

    Attributes:
        search: The search.
        made: Digests of sources that screening chose and that are not stored yet.
    """

    def __init__(self, store: Store, search: SearchRecord, parents: ParentCache) -> None:
        self._store = store
        self._parents = parents
        self.search = search
        self.made: set[str] = set()
        self._stats: EmitterStats | None = None
        self._elites: dict[str, list[SelectableElite]] = {}
        self._pinned: dict[str, list[SelectableElite]] = {}
        self._children: Counter[str] = Counter()

    async def stats(self) -> EmitterStats:
        """Return the statistics of its emitters."""
        if self._stats is None:
            self._stats = await read_stats(self._store, self.search)
        return self._stats

    async def elites(self, device: str) -> Sequence[SelectableElite]:
        """Return its elites on a device."""
        if device not in self._elites:
            self._elites[device] = await self._store.elites.holders(self.search.id, device, self.search.axes_version)
        return self._elites[device]

    async def pinned(self, device: str) -> Sequence[SelectableElite]:
        """Return its pinned elites."""
        if device not in self._pinned:
            pins = await self._store.pins.list(self.search.id, device)
            self._pinned[device] = preferred(await self.elites(device), pins)
        return self._pinned[device]

    async def visits(self, device: str) -> dict[int, int]:
        """Return how often the holder of each of its cells was a parent, by cell."""
        return {elite.cell: elite.visits + self._children[elite.candidate] for elite in await self.elites(device)}

    async def parent(self, elite: SelectableElite) -> Parent:
        """Return an elite as emitters need it."""
        return await self._parents.find(self.search, elite)

    def count_children(self, parents: Collection[str]) -> None:
        """Count one more visit for each of these candidates."""
        self._children.update(set(parents))
