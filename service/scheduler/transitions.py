"""Transitions of searches: a coordinator starts them, ends them, and finishes those that are done.

A search is done as soon as it proposes nothing more. The verdicts on candidates that are still in flight, the confirms
of its best provisional holders, its baselines and the examinations of its finalists may come later, also after a
restart; the search is finishing until then.
"""

import structlog

from archive.errors import ArchiveError
from archive.records import SearchRecord, SearchState
from archive.store import Store
from service.evaluation.finalists import Finalists
from service.evaluation.verdicts import Verdicts
from service.events import EventBus, SearchChanged
from service.scheduler.leases import SearchLeases
from workers.protocol import Operator

log = structlog.get_logger(__name__)


class SearchTransitions:
    """Changes the states of the searches that one coordinator holds."""

    def __init__(
        self,
        store: Store,
        events: EventBus,
        search_leases: SearchLeases,
        finals: Finalists,
        verdicts: Verdicts,
    ) -> None:
        self._store = store
        self._events = events
        self._search_leases = search_leases
        self._finals = finals
        self._verdicts = verdicts

    async def enter(self, search: SearchRecord, state: SearchState, reason: str = "") -> None:
        """Change the state, unless a person paused or stopped the search, or another coordinator holds it.

        A done search with verdicts is finishing.
        """
        done = state is SearchState.DONE
        finishing = done and (await self._store.candidates.count(search.id)).evaluated > 0
        try:
            await self._store.searches.set_state(
                search.id,
                state,
                reason=reason,
                only_from=(search.state,),
                holder=self._search_leases.holder,
                finishing=finishing,
            )
        except ArchiveError as error:
            log.info("search changed meanwhile", search=search.id, detail=str(error))
            return
        if done:
            self._finals.forget(search.id)  # All that are left are requested at once from now on.
        self._events.publish(SearchChanged(search=search.id, state=state.value, reason=reason))

    async def finish(self, search: SearchRecord, operator: Operator, in_flight: int) -> None:
        """Request what a done search lacks; once nothing is to come, it is no longer finishing.

        Args:
            search: The search.
            operator: Its operator.
            in_flight: Number of its candidates without a verdict.
        """
        confirmed = await self._verdicts.confirm(search, operator, last=True)
        await self._verdicts.unit_of_work.commit()
        related = await self._verdicts.baselines.complete(search, operator)
        if not confirmed or not await self._finals.complete(search, operator) or not related or in_flight:
            return
        try:
            await self._store.searches.finish(search.id, holder=self._search_leases.holder)
        except ArchiveError as error:
            log.info("search changed meanwhile", search=search.id, detail=str(error))
            return
        self._events.publish(SearchChanged(search=search.id, state=search.state.value, reason=search.reason))
