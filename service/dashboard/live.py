"""Live updates: a stream of the page's fragments, each sent when it has changed.

An event only says that something happened. A page is redrawn at most a few times per second, always from the archive
as it is then. So no change is missed, and no reader falls behind. All readers of a page share one reading and one
rendering, however many events arrive. A heartbeat tells a quiet search from a lost connection.
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

from archive.errors import RecordNotFound
from service.dashboard.rendering import Fragment, PageFrame, RenderedFragment, render
from service.events import EventBus
from service.tasks import end

REDRAW_S = 0.4
"""Minimum seconds between two readings of a page: faster updates cannot be followed, slower ones feel slow."""
READING_SHARE = 1 / 3
"""Maximum share of time that reading one page takes, for any archive size and any number of readers."""
BEAT_S = 4.0
"""Seconds between heartbeats; also the maximum age of figures without events, such as busy workers."""
ROUNDS_KEPT = 32
"""Maximum number of pages whose last reading is kept for their readers, each up to 100 kB."""

Load = Callable[[], Awaitable[Iterable[Fragment]]]


class _Reading:
    """One reading of a page's data, with its start on the monotonic clock and its rendering for each frame."""

    def __init__(self, load: Load) -> None:
        self.began = time.monotonic()
        self.fragments = asyncio.create_task(self._read(load))
        self.rendered: dict[PageFrame, tuple[RenderedFragment, ...]] = {}
        self._next_at = self.began + REDRAW_S

    async def rest(self) -> None:
        """Wait until the next reading may begin."""
        await asyncio.wait([self.fragments])
        await asyncio.sleep(self._next_at - time.monotonic())

    async def _read(self, load: Load) -> tuple[Fragment, ...]:
        try:
            return tuple(await load())
        finally:
            took = time.monotonic() - self.began
            self._next_at = self.began + max(REDRAW_S, took / READING_SHARE)


class PageReadings:
    """The latest reading of each page with readers.

    A reader that needs a newer reading waits until the next may begin. All waiting readers wake at the same time, and
    the first one reads for all.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, _Reading] = OrderedDict()

    async def parts(
        self, page: str, since: float, load: Load, frame: PageFrame
    ) -> tuple[float, tuple[RenderedFragment, ...]]:
        """Return the fragments of a page, read at or after a time.

        Args:
            page: Key of the page and its view, the same for all readers.
            since: Earliest start of the reading, on the monotonic clock.
            load: Reads the fragments.
            frame: Frame of this reader.

        Returns:
            Start of the reading on the monotonic clock, and the rendered fragments.
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
        """Wait for a reading of a page that is new enough; None if the caller has to begin one."""
        latest = self._latest.get(page)
        while latest is not None and latest.began < since:
            await latest.rest()
            rested, latest = latest, self._latest.get(page)
            if latest is rested:
                return None
        return latest


_ROUNDS: "WeakKeyDictionary[EventBus, PageReadings]" = WeakKeyDictionary()
# By event bus: each coordinator has one.


async def stream(
    events: EventBus, page: str, load: Load, frame: PageFrame, search: str | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Send all fragments of a page, then each one that changes, until the reader disconnects or its search is deleted.

    Args:
        events: Bus that announces changes.
        page: Key of the page and its view; its readers share one reading.
        load: Reads the present fragments.
        frame: Frame of the page.
        search: Search whose events count; None for all searches.

    Yields:
        `part` events with a fragment's name and content, or `pieces` with only its changed pieces. A `beat` with the
        time follows each round.
    """
    rounds = _ROUNDS.setdefault(events, PageReadings())
    news = _ChangeFlag()
    listening = asyncio.create_task(news.listen(events, search))
    sent: dict[str, _Sent] = {}
    try:
        while await news.wait(BEAT_S):
            try:
                read_at, parts = await rounds.parts(page, news.wanted_since(), load, frame)
            except RecordNotFound:
                return
            news.shown(read_at)
            for rendered in parts:
                update = sent.setdefault(rendered.name, _Sent()).update(rendered)
                if update is not None:
                    yield update
            yield ServerSentEvent(event="beat", data={"at": datetime.now(UTC).isoformat(timespec="seconds")})
    finally:
        await end([listening])


class _ChangeFlag:
    """Flag that something happened since the last reading, and when. It starts as set."""

    def __init__(self) -> None:
        self._over = False
        self._at = time.monotonic()
        self._happened = asyncio.Event()

    async def listen(self, events: EventBus, search: str | None) -> None:
        """Set the flag on every event."""
        async for _ in events.subscribe(search):
            self._at = time.monotonic()
            self._happened.set()
        self._over = True
        self._happened.set()

    async def wait(self, longest_s: float) -> bool:
        """Wait for an event or a timeout; False if the bus is closed."""
        if not self._over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._happened.wait(), longest_s)
        return not self._over

    def wanted_since(self) -> float:
        """Return the earliest acceptable start of a reading: after the latest event, and at most a redraw ago."""
        return max(self._at, time.monotonic() - REDRAW_S)

    def shown(self, read_at: float) -> None:
        """Clear the flag if no event came after a reading began."""
        if self._at < read_at:
            self._happened.clear()


class _Sent:
    """Digests of the parts of a fragment that one reader already has."""

    def __init__(self) -> None:
        self._skeleton = b""
        self._pieces: dict[str, bytes] = {}

    def update(self, rendered: RenderedFragment) -> ServerSentEvent | None:
        """Return an event with the parts that the reader lacks; None if it has all."""
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
