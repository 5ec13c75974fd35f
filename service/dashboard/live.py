"""Live updates: a stream of fragments, as the page itself is made of, sent when they have changed.

Events only say that something happened. However many there are, a page is redrawn a few times a second at most, and
always from the archive as it is then: nothing is missed, and nobody falls behind. A beat is sent even when nothing
changes, so that the page knows the difference between quiet and lost.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime

from fastapi.sse import ServerSentEvent

from service.dashboard.rendering import Fragment, Frame, render_fragment
from service.events import Events
from service.tasks import end

REDRAW_S = 0.4
"""Least time between two redraws: slower than anybody can follow, faster than anybody would call slow."""
REST_SHARE = 2.0
"""Least pause in parts of the time that a redraw took: however large the archive, watching takes a third of it."""
BEAT_S = 4.0
"""Longest silence. It is also how old figures that no event announces, such as busy workers, may get."""

Load = Callable[[], Awaitable[Iterable[Fragment]]]


async def stream(events: Events, load: Load, frame: Frame, search: str | None = None) -> AsyncIterator[ServerSentEvent]:
    """Send fragments for as long as somebody listens, at first all of them.

    Args:
        events: What says that something happened.
        load: Reads the fragments as they are now.
        frame: Of the page they belong to.
        search: Whose events matter; None for every search's.

    Yields:
        `part` events with a fragment's name and inside, and after each round a `beat` with the time.
    """
    happened = asyncio.Event()
    over = asyncio.Event()
    listening = asyncio.create_task(_listen(events, search, happened, over))
    sent: dict[str, bytes] = {}
    try:
        while not over.is_set():
            happened.clear()
            began = time.monotonic()
            for fragment in await load():
                inside = render_fragment(fragment, frame)
                digest = hashlib.blake2b(inside.encode(), digest_size=16).digest()
                if sent.get(fragment.name) != digest:
                    sent[fragment.name] = digest
                    yield ServerSentEvent(event="part", data={"name": fragment.name, "inside": str(inside)})
            yield ServerSentEvent(event="beat", data={"at": datetime.now(UTC).isoformat(timespec="seconds")})
            await asyncio.sleep(max(REDRAW_S, REST_SHARE * (time.monotonic() - began)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(happened.wait(), BEAT_S - REDRAW_S)
    finally:
        await end([listening])


async def _listen(events: Events, search: str | None, happened: asyncio.Event, over: asyncio.Event) -> None:
    """Note that something happened, as fast as it happens."""
    async for _ in events.subscribe(search):
        happened.set()
    over.set()
    happened.set()
