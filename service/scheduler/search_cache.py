"""Cache of the open searches: a record is read again only if it has changed, as its graphs make it large."""

from collections.abc import Collection, Iterable
from contextlib import suppress

from archive.errors import RecordNotFound
from archive.records import SearchFingerprint, SearchRecord, SearchState
from archive.store import Store
from workers.protocol import Operator


class SearchCache:
    """Searches and their operators, as one coordinator knows them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fingerprints: dict[str, SearchFingerprint] = {}
        self._known: dict[str, SearchRecord] = {}
        self._operators: dict[str, Operator] = {}

    @property
    def fingerprints(self) -> dict[str, SearchFingerprint]:
        """All open searches of the archive at the last look by id, including those of other coordinators."""
        return self._fingerprints

    async def look(self) -> None:
        """Read which searches are open, and drop records that have changed."""
        self._fingerprints = {
            fingerprint.id: fingerprint for fingerprint in await self._store.search_leases.fingerprints()
        }
        self._known = {id: search for id, search in self._known.items() if self._is_fresh(search)}
        used = {search.operator for search in self._known.values()}
        self._operators = {digest: operator for digest, operator in self._operators.items() if digest in used}

    async def get(self, id: str) -> SearchRecord:
        """Return a search as it was at the last look, or later.

        Raises:
            RecordNotFound: If there is no such search.
        """
        search = self._known.get(id)
        if search is None:
            search = await self._store.searches.get(id)
            if self._is_fresh(search):
                self._known[id] = search
        return search

    async def those(self, ids: Iterable[str], states: Collection[SearchState]) -> list[SearchRecord]:
        """Return the open searches among `ids` in one of `states`.

        A person may have ended or deleted one since the last look.
        """
        known = []
        for id in ids:
            if id in self._fingerprints:
                with suppress(RecordNotFound):
                    known.append(await self.get(id))
        return [search for search in known if search.state in states]

    def by_load(self, ids: Iterable[str]) -> list[str]:
        """Return the open searches among `ids`, fewest candidates in flight first."""
        return sorted((id for id in ids if id in self._fingerprints), key=lambda id: self._fingerprints[id].in_flight)

    async def operator(self, search: SearchRecord) -> Operator:
        """Return the operator of a search."""
        operator = self._operators.get(search.operator)
        if operator is None:
            record = await self._store.operators.get(search.operator)
            operator = self._operators[search.operator] = Operator.model_validate_json(record.document)
        return operator

    def _is_fresh(self, search: SearchRecord) -> bool:
        fingerprint = self._fingerprints.get(search.id)
        return fingerprint is not None and fingerprint.updated_at == search.updated_at
