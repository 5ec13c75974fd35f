"""The open searches as they are now, read whole only when they have changed: a search with its graphs is wide."""

from collections.abc import Collection, Iterable

from archive.records import SearchFingerprint, SearchRecord, SearchState
from archive.store import Store
from workers.protocol import Operator


class SearchCache:
    """Searches, and what they are about, as one coordinator knows them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marks: dict[str, SearchFingerprint] = {}
        self._known: dict[str, SearchRecord] = {}
        self._operators: dict[str, Operator] = {}

    @property
    def marks(self) -> dict[str, SearchFingerprint]:
        """Every open search of the archive at the last look, whoever runs it, by id."""
        return self._marks

    async def look(self) -> None:
        """See which searches are open, and which have changed."""
        self._marks = {mark.id: mark for mark in await self._store.search_leases.marks()}
        self._known = {id: search for id, search in self._known.items() if self._is_fresh(search)}
        used = {search.operator for search in self._known.values()}
        self._operators = {digest: operator for digest, operator in self._operators.items() if digest in used}

    async def get(self, id: str) -> SearchRecord:
        """A search as it was at the last look, or later.

        Raises:
            NotFound: If there is no such search.
        """
        search = self._known.get(id)
        if search is None:
            search = await self._store.searches.get(id)
            if self._is_fresh(search):
                self._known[id] = search
        return search

    async def those(self, ids: Iterable[str], states: Collection[SearchState]) -> list[SearchRecord]:
        """Open searches among these that are in such a state now: a person may have ended one since the last look."""
        known = [await self.get(id) for id in ids if id in self._marks]
        return [search for search in known if search.state in states]

    def by_load(self, ids: Iterable[str]) -> list[str]:
        """Open searches among these, those first that have the least on their way."""
        return sorted((id for id in ids if id in self._marks), key=lambda id: self._marks[id].in_flight)

    async def operator(self, search: SearchRecord) -> Operator:
        """What a search is about."""
        operator = self._operators.get(search.operator)
        if operator is None:
            record = await self._store.operators.get(search.operator)
            operator = self._operators[search.operator] = Operator.model_validate_json(record.document)
        return operator

    def _is_fresh(self, search: SearchRecord) -> bool:
        mark = self._marks.get(search.id)
        return mark is not None and mark.updated_at == search.updated_at
