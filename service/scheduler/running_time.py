"""Running time of searches, which the stop rule `seconds` counts.

It is added up in the archive while a coordinator runs a search. So pauses and the time without a coordinator do not
count, and a kill loses no more than the last beat.
"""

import time
from collections.abc import Collection

from archive.store import Store

BEAT_S = 1.0
"""Seconds between two writes: the accuracy of the rule, at one small statement for all searches."""


class RunningTime:
    """Clock of the searches that one coordinator runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counted_at = time.monotonic()

    async def count(self, running: Collection[str]) -> None:
        """Count the time since the last beat, if a beat is over.

        Args:
            running: Ids of the searches that this coordinator runs now, without paused ones.

        Raises:
            DatabaseUnavailable: If the database does not answer; this beat is then not counted.
        """
        now = time.monotonic()
        passed_s = now - self._counted_at
        if passed_s < BEAT_S:
            return
        self._counted_at = now
        if running:
            await self._store.searches.count_time(running, round(1000 * passed_s))
