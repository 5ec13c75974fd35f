"""Pages of a search that were made before are sent again, for as long as nothing has changed that they tell.

What a search looks like has a version (`archive.records.SearchVersion`), which one query reads for all who wait for one.
Nobody is sent what is older than his request: a version is looked up after he has asked, and before the page is made
that is kept under it.

Without it, 200 readers that ask once a second need 1.4 cores on SQLite: 7.0 ms per page made anew, 0.45 ms per page
that is kept (`benchmarks/results/load.json`).
"""

import asyncio
import re
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
"""The page that also tells which devices are served."""
PAGE = re.compile(rf"{VERSION_PREFIX}/searches/(?P<search>{ID.pattern})(?P<page>|/archive|{PROGRESS}|/candidates)")
"""Pages that tell nothing but what a version stands for."""
MOST_BYTES = 32 * 2**20
"""Of all pages kept: an archive of a thousand elites is half a megabyte."""
LARGEST_BYTES = 2 * 2**20
"""Of a page that is kept."""

State = tuple[SearchVersion, frozenset[str]]
"""What a page depends on: the search's version, and for its progress the devices that are served."""
Key = tuple[str, bytes, frozenset[Allowed]]
"""Path, query, and what the caller may do."""


@dataclass(frozen=True)
class _CachedResponse:
    """A page as it was sent."""

    state: State
    start: Message
    body: bytes

    async def send(self, send: Send) -> None:
        await send(self.start)
        await send({"type": "http.response.body", "body": self.body})


class ResponseCache:
    """Keeps pages, those that were asked for last, and has each made once however many ask for it."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Key, _CachedResponse] = OrderedDict()
        self._bytes = 0
        self._making: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a kept page if it is as the next one would be; pass everything else on."""
        found = PAGE.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        # Conditions are for who makes the page to see to.
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
    """What a page depends on now; None where that cannot be told, or there is no such search."""
    try:
        version = await running.versions.find(search)
        if version is None or (page == PROGRESS and version.asks):
            return None
        return version, await running.capabilities.devices() if page == PROGRESS else frozenset()
    except (ArchiveError, QueueUnavailable):
        # Whoever makes the page needs the same, and says what is wrong.
        return None
