"""Cache of a search's responses, valid while the search has not changed.

The content has a version (`archive.records.SearchVersion`), which one query reads for all waiting requests. It is read
after a request arrives and before the response is made, so no response is older than its request.

Without the cache, 200 readers with one request per second need 1.4 cores on SQLite: 7.0 ms per response made, 0.45 ms
per cached one (`benchmarks/results/load.json`).
"""

import asyncio
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archive.errors import ArchiveError
from archive.records import SearchVersion
from service.api import VERSION_PREFIX
from service.api.paging import ID
from service.coordinator import Coordinator
from service.security.scopes import Scope as Allowed
from workers.queue import QueueUnavailable

PROGRESS = "/progress"
"""Path of the response that also depends on the connected workers, the queue and the time."""
PAGE = re.compile(rf"{VERSION_PREFIX}/searches/(?P<search>{ID.pattern})(?P<page>|/archive|{PROGRESS}|/candidates)")
"""Paths of responses that depend only on the search's version."""
MOST_BYTES = 32 * 2**20
"""Maximum size of all cached responses: an archive of a thousand elites takes half a megabyte."""
LARGEST_BYTES = 2 * 2**20
"""Maximum size of one cached response."""

PROGRESS_S = 1.0
"""Seconds after which a progress is made anew: its elapsed time and activity change without the archive."""

State = tuple[SearchVersion, frozenset[str], int]
"""State that a response depends on: the search's version, and for its progress the devices with workers and the time in
units of `PROGRESS_S`."""
Key = tuple[str, bytes, frozenset[Allowed]]
"""Path, query and scopes of the caller."""


@dataclass(frozen=True)
class _CachedResponse:
    """A response with the state that it depends on."""

    state: State
    start: Message
    body: bytes

    async def send(self, send: Send) -> None:
        await send(self.start)
        await send({"type": "http.response.body", "body": self.body})


class ResponseCache:
    """Middleware that caches the latest responses, and makes each once for all concurrent requests."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Key, _CachedResponse] = OrderedDict()
        self._bytes = 0
        self._making: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a cached response if it is still valid; pass other requests on."""
        found = PAGE.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        # Conditional requests are left to the route.
        state = None
        if found is not None and "if-none-match" not in Headers(scope=scope):
            state = await _state_of(scope["app"].state.coordinator, found["search"], found["page"])
        caller = scope["state"].get("caller") if state is not None else None
        if state is None or caller is None:
            await self._app(scope, receive, send)
            return
        key = (scope["path"], scope["query_string"], caller.scopes)
        async with self._making.setdefault(key, asyncio.Lock()):
            page = self._pages.get(key)
            if page is None or page.state != state:
                page = await self._make(state, scope, receive)
                self._keep(key, page)
            else:
                self._pages.move_to_end(key)
        await page.send(send)

    async def _make(self, state: State, scope: Scope, receive: Receive) -> _CachedResponse:
        sent: list[Message] = []

        async def take(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, take)
        return _CachedResponse(state, sent[0], b"".join(message.get("body", b"") for message in sent[1:]))

    def _keep(self, key: Key, page: _CachedResponse) -> None:
        before = self._pages.pop(key, None)
        self._bytes -= len(before.body) if before else 0
        if page.start["status"] != 200 or len(page.body) > LARGEST_BYTES:
            return
        self._pages[key] = page
        self._bytes += len(page.body)
        while self._bytes > self._most_bytes:
            _, oldest = self._pages.popitem(last=False)
            self._bytes -= len(oldest.body)


async def _state_of(running: Coordinator, search: str, page: str) -> State | None:
    """Read the state that a response depends on; None if it is unknown or there is no such search."""
    try:
        version = await running.versions.find(search)
        if version is None or (page == PROGRESS and version.asks):
            return None
        if page != PROGRESS:
            return version, frozenset(), 0
        return version, await running.capabilities.devices(), int(time.monotonic() // PROGRESS_S)
    except (ArchiveError, QueueUnavailable):
        # The route needs the same services, and reports the error.
        return None
