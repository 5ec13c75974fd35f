"""Learns from searches as they end, in the background; what ended while nobody looked is found at the start."""

import asyncio

import structlog

from archive.errors import ArchiveError, RecordNotFound
from archive.records import SearchState
from archive.store import Store
from service.events import EventBus, SearchChanged, StreamReset
from service.knowledge.distillation import distil
from service.tasks import end

ENDED = (SearchState.DONE, SearchState.STOPPED)
"""States of searches that teach something: what a failed one has is not to be relied on."""
PAUSE_S = 30.0
"""Seconds before the archive is asked again after it did not answer."""

log = structlog.get_logger(__name__)


class KnowledgeLearner:
    """One coordinator's reader of ended searches. Several of them may read the same search: it counts once."""

    def __init__(self, store: Store, events: EventBus) -> None:
        self._store = store
        self._events = events
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run in the background until `stop`."""
        self._task = asyncio.create_task(self.run(), name="learning")

    async def stop(self) -> None:
        """End at once; a search that is being read is read again at the next start."""
        if self._task is not None:
            await end([self._task])

    async def run(self) -> None:
        """Follow events until the bus is closed. An archive that does not answer is asked again."""
        while True:
            try:
                await self._follow()
                return
            except ArchiveError as error:
                log.warning("learning pauses", detail=str(error), pause_s=PAUSE_S)
                await asyncio.sleep(PAUSE_S)

    async def catch_up(self) -> None:
        """Learn from every search that ended and was never read."""
        while missed := await self._store.knowledge.undistilled(ENDED):
            for search in missed:
                await self._learn(search)

    async def _follow(self) -> None:
        """Every watch begins with `StreamReset`, so that what was missed is found first."""
        async for announcement in self._events.subscribe():
            event = announcement.event
            if isinstance(event, StreamReset):
                await self.catch_up()
            elif isinstance(event, SearchChanged) and event.state in ENDED:
                await self._learn(event.search)

    async def _learn(self, id: str) -> None:
        try:
            search = await self._store.searches.get(id)
            await distil(self._store, search)
        except RecordNotFound:
            log.info("the search is gone", search=id)
        except ValueError as error:
            # Such as a report of an older protocol: read again and again it would teach nothing either.
            log.warning("nothing to be learned", search=id, detail=str(error))
            await self._store.knowledge.learn(id, "", [], {})
