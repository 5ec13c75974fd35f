"""Admissions: mutation testing of the operators of searches, which comes before the first proposal."""

from collections.abc import Collection

from archive.records import SearchRecord
from archive.store import Store
from service.evaluation.jobs import admission_id, admission_job
from workers.protocol import Operator
from workers.queue import Dispatcher


async def is_admitted(store: Store, search: SearchRecord) -> bool:
    """Return True if the checks of a search's operator were tested since its submission.

    Older reports do not count, because the checks may have changed. A failed report ends the search when it comes.
    """
    found = (await store.operators.mutation_reports_of([search.operator])).get(search.operator)
    return found is not None and found.created_at >= search.created_at


class Admissions:
    """Requests mutation testing. It runs beside the first seeds, which do not depend on it."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._ordered: set[str] = set()

    async def obtain(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if the operator of a search is admitted; otherwise request that, unless it is pending."""
        if await is_admitted(self._store, search):
            self._ordered.discard(search.id)
            return True
        if search.id not in self._ordered:
            await self._dispatcher.submit(admission_job(search, operator))
            self._ordered.add(search.id)
        return False

    def sweep(self, search: str, queued: Collection[str]) -> None:
        """Allow a new request for a search if its job is not in the queue."""
        if admission_id(search) not in queued:
            self._ordered.discard(search)
