"""Events: changes of the archive, published to watchers after the commit.

The bus never waits for a watcher. One that falls behind loses events and gets a reset, as at the start of every watch:
**read the state on `stream.reset`, then follow the events**.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

HISTORY = 1024
"""Number of events kept for watchers that reconnect: minutes of a busy search, under a megabyte."""
BACKLOG = 256
"""Maximum number of unread events per watcher before a reset; a page redraws faster than this fills."""


@dataclass(frozen=True)
class SearchChanged:
    """Change of a search's state; `reason` says why it failed or stopped."""

    kind: ClassVar[str] = "search.changed"
    search: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class CandidateJudged:
    """Verdict on a candidate.

    `objectives` holds the best variant's objective per device with a correct one. `objective` is the one on the
    search's first device; None if no variant is correct there.
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
    """New elite of a cell; `placement` is `new` or `improved`."""

    kind: ClassVar[str] = "elite.promoted"
    search: str
    device: str
    cell: int
    candidate: str
    objective: float
    placement: str


@dataclass(frozen=True)
class EliteWithdrawn:
    """Loss of a cell; `reason` says why.

    An examination as a finalist found a fault in an elite: its cell is empty. Or, if `provisional`, a confirm or a
    second trace did not bear a provisional holder out: the cell is its elite's again, if it has one.
    """

    kind: ClassVar[str] = "elite.withdrawn"
    search: str
    device: str
    cell: int
    candidate: str
    reason: str
    provisional: bool = False


@dataclass(frozen=True)
class WorkerChanged:
    """Change of a remote worker: it joined, its state changed, or its report differed from a trusted worker's.

    `state` is `trusted`, `untrusted`, `disagreed` or the remote worker's state; `reason` says more. `search` is empty.
    """

    kind: ClassVar[str] = "worker.changed"
    worker: str
    state: str
    reason: str = ""
    search: str = ""


@dataclass(frozen=True)
class StreamReset:
    """Reset of a stream: earlier events are lost. Read the state, then follow the events."""

    kind: ClassVar[str] = "stream.reset"


Event = SearchChanged | CandidateJudged | ElitePromoted | EliteWithdrawn | WorkerChanged | StreamReset


@dataclass(frozen=True)
class PublishedEvent:
    """Event with its UTC time and an `id` that resumes a watch at every coordinator with the same queue."""

    id: str
    at: datetime
    event: Event


class _Watcher:
    """Unread events of one subscriber."""

    def __init__(self, search: str | None, backlog: int) -> None:
        self._search = search
        self._backlog = backlog
        self._unread: deque[PublishedEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def wants(self, event: Event) -> bool:
        """Return True if an event belongs to the watched search, or every search is watched."""
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
        """Return the next event; None once the bus is closed and everything is read."""
        while not self._unread and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft() if self._unread else None


class EventBus:
    """Event bus of one coordinator. All of it runs on one event loop."""

    def __init__(
        self, *, history: int = HISTORY, backlog: int = BACKLOG, observe: Callable[[Event], None] = lambda event: None
    ) -> None:
        """Open the bus; `observe` is called once per event published here."""
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
        """Number of events published since the start."""
        return self._count

    @property
    def watchers(self) -> int:
        """Number of open watches."""
        return len(self._watchers)

    def publish(self, event: Event) -> None:
        """Publish an event to every watcher. Call it after the commit, never before."""
        self._count += 1
        self._observe(event)
        if self._way is not None:
            self._way(event)
        else:
            self.deliver(self._announce(self._count, event))

    def route(self, way: Callable[[Event], None] | None) -> None:
        """Publish through `way`, which must bring each event back to `deliver`; None publishes directly again."""
        self._way = way

    def deliver(self, announcement: PublishedEvent) -> None:
        """Add an event to the history and to every watcher's queue."""
        self._history.append(announcement)
        for watcher in self._watchers:
            watcher.put(announcement)

    async def subscribe(self, search: str | None = None, *, after: str | None = None) -> AsyncIterator[PublishedEvent]:
        """Follow one search, or all.

        Args:
            search: Id of the search; None for every search.
            after: Id of the last event seen. If it is not in the history, the watch starts with `StreamReset`.

        Yields:
            Events in order, until the bus is closed.
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
        """End every watch once it has read all published events. Idempotent."""
        self._closed = True
        for watcher in self._watchers:
            watcher.close()

    def _announce(self, number: int, event: Event) -> PublishedEvent:
        return PublishedEvent(f"{self._life}-{number}", datetime.now(UTC), event)

    def _since(self, after: str | None) -> list[PublishedEvent]:
        """Return the events after an id, or one `StreamReset` if the id is not in the history."""
        kept = list(self._history)
        for position, announcement in enumerate(kept):
            if announcement.id == after:
                return kept[position + 1 :]
        last = kept[-1].id if kept else f"{self._life}-{self._count}"
        return [PublishedEvent(last, datetime.now(UTC), StreamReset())]
