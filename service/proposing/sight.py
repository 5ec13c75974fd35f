"""What a search has come to, read once for a few proposals in a row.

What these proposals change in the archive themselves, which is how often an elite was a parent, is counted here as
well: they are what they would be if each of them read everything anew.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from archive.grid import Grid
from archive.policies import Surroundings
from archive.records import Holder, Search
from archive.selection import preferred
from archive.store import Store
from service.emitters.base import Parent
from service.proposing.ledger import Ledger, read_ledger
from service.proposing.parents import Parents


class Sight:
    """One search, for as long as nobody but its proposer changes it.

    Attributes:
        search: Which.
        made: Digests of texts that screening chose and that are not stored yet.
    """

    def __init__(self, store: Store, search: Search, parents: Parents) -> None:
        self._store = store
        self._parents = parents
        self.search = search
        self.made: set[str] = set()
        self._ledger: Ledger | None = None
        self._elites: dict[str, list[Holder]] = {}
        self._pinned: dict[str, list[Holder]] = {}
        self._children: Counter[str] = Counter()

    async def ledger(self) -> Ledger:
        """The accounts of its emitters."""
        if self._ledger is None:
            self._ledger = await read_ledger(self._store, self.search)
        return self._ledger

    async def elites(self, device: str) -> Sequence[Holder]:
        """Who holds its cells on a device."""
        if device not in self._elites:
            self._elites[device] = await self._store.elites.holders(self.search.id, device, self.search.axes_version)
        return self._elites[device]

    async def pinned(self, device: str) -> Sequence[Holder]:
        """Those that people want it to go on from."""
        if device not in self._pinned:
            pins = await self._store.pins.list(self.search.id, device)
            self._pinned[device] = preferred(await self.elites(device), pins)
        return self._pinned[device]

    async def around(self, device: str) -> Surroundings:
        """What is known of the cells."""
        elites = await self.elites(device)
        visits = {elite.cell: elite.visits + self._children[elite.candidate] for elite in elites}
        return Surroundings(visits, Grid(self.search.axes))

    async def parent(self, elite: Holder) -> Parent:
        """An elite as emitters want it."""
        return await self._parents.find(self.search, elite)

    def count_children(self, parents: Collection[str]) -> None:
        """See that these candidates were parents once more."""
        self._children.update(set(parents))
