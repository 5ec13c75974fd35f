"""Looks: what many ask for at about the same time is looked up once for all of them.

Only one look goes on at a time. Who asks meanwhile waits for the next one, which begins after all of them have asked:
nobody is told what was true before he asked, and the more ask, the less each of them costs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")


class SingleFlight(Generic[Key, Found]):
    """Looks things up by their keys, for all who wait in one go."""

    def __init__(self, look: Callable[[Collection[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        """Prepare.

        Args:
            look: Finds what some keys stand for; leaves out those that stand for nothing.
        """
        self._look = look
        self._keys: set[Key] = set()
        self._now: asyncio.Task[Mapping[Key, Found]] | None = None
        self._next: asyncio.Task[Mapping[Key, Found]] | None = None

    async def find(self, key: Key) -> Found | None:
        """What a key stands for, None for nothing; raises what the look raised, for everybody who waited for it."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now), name="look")
        self._keys.add(key)
        # Who goes away takes nothing from the others.
        return (await asyncio.shield(self._next)).get(key)

    async def _after(self, before: asyncio.Task[Mapping[Key, Found]] | None) -> Mapping[Key, Found]:
        if before is not None:
            await asyncio.wait([before])
        keys, self._keys = self._keys, set()
        self._now, self._next = self._next, None
        return await self._look(keys)
