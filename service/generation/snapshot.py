"""What a search has come to, read once for a few proposals in a row.

What these proposals change in the archive themselves, which is how often an elite was a parent, is counted here as
well: they are what they would be if each of them read everything anew.
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
    """One search, for as long as nobody but its proposer changes it.

    Attributes:
        search: Which.
        made: Digests of texts that screening chose and that are not stored yet.
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
        """The accounts of its emitters."""
        if self._stats is None:
            self._stats = await read_stats(self._store, self.search)
        return self._stats

    async def elites(self, device: str) -> Sequence[SelectableElite]:
        """Who holds its cells on a device."""
        if device not in self._elites:
            self._elites[device] = await self._store.elites.holders(self.search.id, device, self.search.axes_version)
        return self._elites[device]

    async def pinned(self, device: str) -> Sequence[SelectableElite]:
        """Those that people want it to go on from."""
        if device not in self._pinned:
            pins = await self._store.pins.list(self.search.id, device)
            self._pinned[device] = preferred(await self.elites(device), pins)
        return self._pinned[device]

    async def around(self, device: str) -> CellContext:
        """What is known of the cells."""
        elites = await self.elites(device)
        visits = {elite.cell: elite.visits + self._children[elite.candidate] for elite in elites}
        return CellContext(visits, Grid(self.search.axes))

    async def parent(self, elite: SelectableElite) -> Parent:
        """An elite as emitters want it."""
        return await self._parents.find(self.search, elite)

    def count_children(self, parents: Collection[str]) -> None:
        """See that these candidates were parents once more."""
        self._children.update(set(parents))
