"""Single-flight lookups: concurrent requests share one lookup.

Only one lookup runs at a time. Requests that arrive meanwhile share the next one, which starts after all of them: no
answer is older than its request, and the cost per request falls with their number.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")


class SingleFlight(Generic[Key, Found]):
    """Lookup by key that serves all waiting requests at once."""

    def __init__(self, look: Callable[[Collection[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        """Prepare lookups.

        Args:
            look: Returns the values of some keys, without keys that have none.
        """
        self._look = look
        self._keys: set[Key] = set()
        self._now: asyncio.Task[Mapping[Key, Found]] | None = None
        self._next: asyncio.Task[Mapping[Key, Found]] | None = None

    async def find(self, key: Key) -> Found | None:
        """Return a key's value; None without one. A failed lookup raises in every request that waited for it."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now), name="lookup")
        self._keys.add(key)
        # A cancelled request must not cancel the others' lookup.
        return (await asyncio.shield(self._next)).get(key)

    async def _after(self, before: asyncio.Task[Mapping[Key, Found]] | None) -> Mapping[Key, Found]:
        if before is not None:
            await asyncio.wait([before])
        keys, self._keys = self._keys, set()
        self._now, self._next = self._next, None
        return await self._look(keys)
