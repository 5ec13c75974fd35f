"""Failures of searches: one that cannot go on ends with the reason."""

import structlog

from archive.errors import RecordConflict
from archive.records import SearchRecord, SearchState
from archive.store import Store
from kernelreef.states import OPEN
from service.evaluation.reference_seed import ReferenceSeed
from service.events import EventBus, SearchChanged

log = structlog.get_logger(__name__)


class SearchFailures:
    """Ends searches that cannot go on."""

    def __init__(self, store: Store, events: EventBus, reference_seed: ReferenceSeed) -> None:
        self._store = store
        self._events = events
        self._reference_seed = reference_seed

    async def has_reference(self, search: SearchRecord) -> bool:
        """Return True unless a search's reference seed is refused; this fails such a search."""
        fault = await self._reference_seed.fault(search)
        if fault:
            await self.fail(search, fault)
        return not fault

    async def fail(self, search: SearchRecord, reason: str) -> None:
        """Fail a search that cannot go on, unless it has ended."""
        try:
            await self._store.searches.set_state(search.id, SearchState.FAILED, reason=reason, only_from=OPEN)
        except RecordConflict as error:
            log.info("search changed meanwhile", search=search.id, detail=str(error))
            return
        self._events.publish(SearchChanged(search=search.id, state=SearchState.FAILED.value, reason=reason))
