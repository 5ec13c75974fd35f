"""Live updates: a stream of fragments, as the page itself is made of, sent when they have changed.

Events only say that something happened. However many there are, a page is redrawn a few times a second at most, and
always from the archive as it is then: nothing is missed, and nobody falls behind. All who watch the same page share
what was read and rendered for it, also in a storm of events. A beat is sent even when nothing changes, so that the
page knows the difference between quiet and lost.
"""

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

from fastapi.sse import ServerSentEvent

from service.dashboard.rendering import Fragment, PageFrame, RenderedFragment, render
from service.events import EventBus
from service.tasks import end

REDRAW_S = 0.4
"""Least time between two readings of a page: slower than anybody can follow, faster than anybody would call slow."""
READING_SHARE = 1 / 3
"""Most of the time that goes into reading a page, however large the archive and however many watch."""
BEAT_S = 4.0
"""Longest silence. It is also how old figures that no event announces, such as busy workers, may get."""
ROUNDS_KEPT = 32
"""Pages whose last redraw is kept for others who watch them, each up to a hundred kilobytes."""

Load = Callable[[], Awaitable[Iterable[Fragment]]]


class _Reading:
    """One reading of what a page shows, begun at a time of the monotonic clock; and how it looks in each frame."""

    def __init__(self, load: Load) -> None:
        self.began = time.monotonic()
        self.fragments = asyncio.create_task(self._read(load))
        self.rendered: dict[PageFrame, tuple[RenderedFragment, ...]] = {}
        self._next_at = self.began + REDRAW_S

    async def rest(self) -> None:
        """Wait until it is time for the next one."""
        await asyncio.wait([self.fragments])
        await asyncio.sleep(self._next_at - time.monotonic())

    async def _read(self, load: Load) -> tuple[Fragment, ...]:
        try:
            return tuple(await load())
        finally:
            took = time.monotonic() - self.began
            self._next_at = self.began + max(REDRAW_S, took / READING_SHARE)


class PageReadings:
    """The latest reading of each page that somebody watches.

    Who wants a newer one than there is waits until it is time for it. All who wait get up at the same moment, so the
    first of them reads for all.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, _Reading] = OrderedDict()

    async def parts(
        self, page: str, since: float, load: Load, frame: PageFrame
    ) -> tuple[float, tuple[RenderedFragment, ...]]:
        """What a page shows, read at or after a time, by whoever watches it.

        Args:
            page: What is looked at, whoever looks.
            since: On the monotonic clock.
            load: Reads it.
            frame: Of who looks.

        Returns:
            When the reading began, on the monotonic clock, and what it looks like.
        """
        latest = await self._newer(page, since) or _Reading(load)
        self._latest[page] = latest
        self._latest.move_to_end(page)
        while len(self._latest) > ROUNDS_KEPT:
            self._latest.popitem(last=False)
        fragments = await asyncio.shield(latest.fragments)
        if frame not in latest.rendered:
            latest.rendered[frame] = tuple(render(fragment, frame) for fragment in fragments)
        return latest.began, latest.rendered[frame]

    async def _newer(self, page: str, since: float) -> _Reading | None:
        """The reading of a page that is new enough; None when it is time for one."""
        latest = self._latest.get(page)
        while latest is not None and latest.began < since:
            await latest.rest()
            rested, latest = latest, self._latest.get(page)
            if latest is rested:
                return None
        return latest


_ROUNDS: "WeakKeyDictionary[EventBus, PageReadings]" = WeakKeyDictionary()
# By bus, for there is one a coordinator.


async def stream(
    events: EventBus, page: str, load: Load, frame: PageFrame, search: str | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Send fragments for as long as somebody listens, at first all of them.

    Args:
        events: What says that something happened.
        page: What is looked at; what was read for one who watches it is shown to all.
        load: Reads the fragments as they are now.
        frame: Of the page they belong to.
        search: Whose events matter; None for every search's.

    Yields:
        `part` events with a fragment's name and inside, or `pieces` with only those of its pieces that have changed;
        and after each round a `beat` with the time.
    """
    rounds = _ROUNDS.setdefault(events, PageReadings())
    news = _ChangeFlag()
    listening = asyncio.create_task(news.listen(events, search))
    sent: dict[str, _Sent] = {}
    try:
        while await news.wait(BEAT_S):
            read_at, parts = await rounds.parts(page, news.wanted_since(), load, frame)
            news.shown(read_at)
            for rendered in parts:
                update = sent.setdefault(rendered.name, _Sent()).update(rendered)
                if update is not None:
                    yield update
            yield ServerSentEvent(event="beat", data={"at": datetime.now(UTC).isoformat(timespec="seconds")})
    finally:
        await end([listening])


class _ChangeFlag:
    """Whether something happened since one looked, and when. That one is listened to is the first of it."""

    def __init__(self) -> None:
        self._over = False
        self._at = time.monotonic()
        self._happened = asyncio.Event()

    async def listen(self, events: EventBus, search: str | None) -> None:
        """Note that something happened, as fast as it happens."""
        async for _ in events.subscribe(search):
            self._at = time.monotonic()
            self._happened.set()
        self._over = True
        self._happened.set()

    async def wait(self, longest_s: float) -> bool:
        """Until something happens; False when nothing will happen any more."""
        if not self._over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._happened.wait(), longest_s)
        return not self._over

    def wanted_since(self) -> float:
        """How new a reading must be, on the monotonic clock: of after the latest event, and no older than a redraw."""
        return max(self._at, time.monotonic() - REDRAW_S)

    def shown(self, read_at: float) -> None:
        """Forget what had happened when a reading began."""
        if self._at < read_at:
            self._happened.clear()


class _Sent:
    """What one watcher has of a fragment, as digests."""

    def __init__(self) -> None:
        self._skeleton = b""
        self._pieces: dict[str, bytes] = {}

    def update(self, rendered: RenderedFragment) -> ServerSentEvent | None:
        """What the watcher lacks; None if nothing."""
        skeleton = _digest(rendered.skeleton)
        pieces = {name: _digest(text) for name, text in rendered.pieces.items()}
        fresh = {name: rendered.pieces[name] for name in pieces if self._pieces.get(name) != pieces[name]}
        same, self._skeleton, self._pieces = skeleton == self._skeleton, skeleton, pieces
        if not same:
            return ServerSentEvent(event="part", data={"name": rendered.name, "inside": rendered.whole})
        if not fresh:
            return None
        return ServerSentEvent(event="pieces", data={"name": rendered.name, "pieces": fresh})


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
