"""Snapshot of a search, read once for a few proposals in a row.

The proposals themselves change one thing in the archive: how often an elite was a parent. That is counted here as well,
so that they are the same as if each of them read everything anew.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from archive.grid import Grid
from archive.policies import CellContext
from archive.records import SearchRecord, SelectableElite
from archive.selection import preferred
from archive.store import Store
from service.emitters.base import Parent
from service.generation.emitter_stats import EmitterStats, read_stats
from service.generation.parents import ParentCache


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

    async def around(self, device: str) -> CellContext:
        """Return the visits of its cells."""
        elites = await self.elites(device)
        visits = {elite.cell: elite.visits + self._children[elite.candidate] for elite in elites}
        return CellContext(visits, Grid(self.search.axes))

    async def parent(self, elite: SelectableElite) -> Parent:
        """Return an elite as emitters need it."""
        return await self._parents.find(self.search, elite)

    def count_children(self, parents: Collection[str]) -> None:
        """Count one more visit for each of these candidates."""
        self._children.update(set(parents))
