"""Cache of elites as emitters need them: a kernel's text and readings never change once it holds a cell."""

from collections import OrderedDict

from archive.records import SearchRecord, SelectableElite
from archive.store import Store
from service.emitters.base import Parent
from service.evaluation.promotion import first_benchmark

REMEMBERED = 2048
"""Maximum number of cached elites, some five kilobytes each, over all searches."""


class ParentCache:
    """Parents of proposals."""

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
        return Parent(
            candidate=candidate.id,
            source=candidate.source,
            configuration=next(item.configuration for item in variants if item.index == elite.variant),
            objective=elite.objective,
            cell=elite.cell,
            readings=readings[first_benchmark(search)],
        )
