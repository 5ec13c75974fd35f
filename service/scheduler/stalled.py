"""Searches that are to end, but have nobody any more who could do what is left of them.

A rule that stops a search lets what is on its way be judged first, and the best be examined. Where the last worker that
could do so is gone, that would be never: the search is stopped then, and says whom it waited for.
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
"""Seconds for which a search must have waited for nobody: workers get this long to come back after a restart."""


class StalledSearches:
    """Knows since when searches wait for workers that are not there."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._capabilities = Capabilities(store, dispatcher)
        self._since: dict[str, float] = {}
        self._look_at = 0.0

    async def spent(self, searches: Sequence[SearchRecord]) -> list[tuple[SearchRecord, str]]:
        """Searches to be stopped now, with the reason: a rule of theirs is met, and all of their jobs wait in vain.

        Args:
            searches: Those that go on.

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
                spent.append((search, f"{met}; what was left waited for {', for '.join(found.missing)}"))
        self._since = since
        return spent
