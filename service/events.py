"""Events: what just happened in the archive, told to whoever watches after it was committed.

Watchers are never waited for. One that falls behind loses what it missed and is told to read the state again, which
is also how every watch begins: **read the state on `stream.reset`, then follow the events**.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

HISTORY = 1024
"""Events kept for watchers that come back: minutes of a busy search, under a megabyte."""
BACKLOG = 256
"""Events a watcher may be behind before it has to read the state again; a page redraws faster than this fills."""


@dataclass(frozen=True)
class SearchChanged:
    """A search entered a state; `reason` says why it failed or stopped."""

    kind: ClassVar[str] = "search.changed"
    search: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class CandidateJudged:
    """A candidate got its verdict.

    `objectives` are those of its best variant on each device where one is correct, `objective` is the one on the
    search's first device: None unless it is correct there.
    """

    kind: ClassVar[str] = "candidate.judged"
    search: str
    candidate: str
    ordinal: int
    emitter: str
    outcome: str
    reason: str = ""
    objective: float | None = None
    objectives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ElitePromoted:
    """A cell has a new holder; `placement` is `new` or `improved`."""

    kind: ClassVar[str] = "elite.promoted"
    search: str
    device: str
    cell: int
    candidate: str
    objective: float
    placement: str


@dataclass(frozen=True)
class EliteWithdrawn:
    """A cell is empty: its holder turned out wrong when it was examined as a finalist. `reason` says in what."""

    kind: ClassVar[str] = "elite.withdrawn"
    search: str
    device: str
    cell: int
    candidate: str
    reason: str


@dataclass(frozen=True)
class WorkerChanged:
    """A host joined, entered a state, or said something else than a trusted worker; about no search.

    `state` is that of the host, `trusted`, `untrusted` or `disagreed`; `reason` says more.
    """

    kind: ClassVar[str] = "worker.changed"
    worker: str
    state: str
    reason: str = ""
    search: str = ""


@dataclass(frozen=True)
class StreamReset:
    """Events before this point are not to be had: read the state, then follow what comes."""

    kind: ClassVar[str] = "stream.reset"


Event = SearchChanged | CandidateJudged | ElitePromoted | EliteWithdrawn | WorkerChanged | StreamReset


@dataclass(frozen=True)
class PublishedEvent:
    """An event as watchers get it. `id` resumes a watch, at every coordinator with the same queue; `at` is UTC."""

    id: str
    at: datetime
    event: Event


class _Watcher:
    """What one subscriber has not read yet."""

    def __init__(self, search: str | None, backlog: int) -> None:
        self._search = search
        self._backlog = backlog
        self._unread: deque[PublishedEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def wants(self, event: Event) -> bool:
        """Whether an event belongs to the search that is watched; all do if none is named."""
        return self._search is None or isinstance(event, StreamReset) or event.search == self._search

    def put(self, announcement: PublishedEvent) -> None:
        if not self.wants(announcement.event):
            return
        if len(self._unread) >= self._backlog:
            self._unread.clear()
            announcement = PublishedEvent(announcement.id, announcement.at, StreamReset())
        self._unread.append(announcement)
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def take(self) -> PublishedEvent | None:
        """The next announcement; None once closed and read to the end."""
        while not self._unread and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft() if self._unread else None


class EventBus:
    """The bus of one coordinator. Everything here runs on one event loop."""

    def __init__(
        self, *, history: int = HISTORY, backlog: int = BACKLOG, observe: Callable[[Event], None] = lambda event: None
    ) -> None:
        """Open the bus; `observe` sees each event that is published here, once."""
        self._observe = observe
        self._history: deque[PublishedEvent] = deque(maxlen=history)
        self._backlog = backlog
        self._watchers: set[_Watcher] = set()
        self._life = secrets.token_hex(4)
        self._count = 0
        self._way: Callable[[Event], None] | None = None
        self._closed = False

    @property
    def published(self) -> int:
        """Events published since the start."""
        return self._count

    @property
    def watchers(self) -> int:
        """Watches open now."""
        return len(self._watchers)

    def publish(self, event: Event) -> None:
        """Tell every watcher. Call it after the commit, never before."""
        self._count += 1
        self._observe(event)
        if self._way is not None:
            self._way(event)
        else:
            self.deliver(self._announce(self._count, event))

    def route(self, way: Callable[[Event], None] | None) -> None:
        """Send what is published from now on another way, which brings it back to `deliver`; None for none."""
        self._way = way

    def deliver(self, announcement: PublishedEvent) -> None:
        """Put an announcement before every watcher, and into history."""
        self._history.append(announcement)
        for watcher in self._watchers:
            watcher.put(announcement)

    async def subscribe(self, search: str | None = None, *, after: str | None = None) -> AsyncIterator[PublishedEvent]:
        """Follow one search, or all.

        Args:
            search: Id of the search; None for every search.
            after: Id of the last announcement seen. Where it is not in the history, the watch starts with `StreamReset`.

        Yields:
            Announcements in order, until the bus is closed.
        """
        watcher = _Watcher(search, self._backlog)
        for missed in self._since(after):
            watcher.put(missed)
        if self._closed:
            watcher.close()
        self._watchers.add(watcher)
        try:
            while (unread := await watcher.take()) is not None:
                yield unread
        finally:
            self._watchers.discard(watcher)

    def close(self) -> None:
        """End every watch once it has read what was published. Idempotent."""
        self._closed = True
        for watcher in self._watchers:
            watcher.close()

    def _announce(self, number: int, event: Event) -> PublishedEvent:
        return PublishedEvent(f"{self._life}-{number}", datetime.now(UTC), event)

    def _since(self, after: str | None) -> list[PublishedEvent]:
        """What was published after an id, or one `StreamReset` where that cannot be told."""
        kept = list(self._history)
        for position, announcement in enumerate(kept):
            if announcement.id == after:
                return kept[position + 1 :]
        last = kept[-1].id if kept else f"{self._life}-{self._count}"
        return [PublishedEvent(last, datetime.now(UTC), StreamReset())]
