"""Stalled searches: a stop rule is met, but no worker is left that could finish the open jobs.

After a stop rule is met, candidates in flight are still evaluated and the best elites examined. If the last worker that
could do so is gone, that would never end. The search is then stopped, and its reason names the missing workers.
"""

import time
from collections.abc import Sequence

from archive.records import SearchRecord
from archive.store import Store
from service.fleet.capabilities import Capabilities
from service.fleet.missing_workers import find_missing
from service.generation.stop_rules import stop_reason
from workers.queue import Dispatcher

LOOK_S = 5.0
"""Seconds between two looks."""
PATIENCE_S = 30.0
"""Seconds that a search must have been without workers: they get this long to come back after a restart."""


class StalledSearches:
    """Tracks since when searches have waited for missing workers."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._capabilities = Capabilities(store, dispatcher)
        self._since: dict[str, float] = {}
        self._look_at = 0.0

    async def spent(self, searches: Sequence[SearchRecord]) -> list[tuple[SearchRecord, str]]:
        """Return the searches to stop now, with the reason: a stop rule is met and no worker serves their jobs.

        Args:
            searches: Searches that are not paused.

        Raises:
            ArchiveError: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at, since, spent = now + LOOK_S, {}, []
        for search in searches:
            if (
                search.stop is None
                or not (found := await find_missing(self._capabilities, self._dispatcher, search)).stuck
            ):
                continue
            since[search.id] = self._since.get(search.id, now)
            met = await stop_reason(self._store, search) if now - since[search.id] >= PATIENCE_S else ""
            if met:
                spent.append((search, f"{met}; its open jobs waited for {', '.join(found.missing)}"))
        self._since = since
        return spent
