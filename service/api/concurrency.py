"""Limit of concurrent readers, because they share the event loop and the database pool with the search loop.

Among two hundred concurrent requests, the search loop would get one turn in two hundred. With only a few it keeps
nearly its full pace. Readers wait no longer in total, because the work is the same.
"""

import asyncio
from contextlib import AsyncExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.csrf import SAFE
from service.api.problems import problem

PLACES = 4
"""Number of concurrent readers: enough that one computes while others wait for the database."""
MOST_WAITING = 1_000
"""Maximum number of waiting readers. More would wait so long that they send the request again meanwhile."""


class ReaderLimit:
    """Middleware that admits a few readers at a time, in order. Requests that change something never wait for them."""

    def __init__(self, app: ASGIApp, places: int = PLACES, most_waiting: int = MOST_WAITING) -> None:
        """Wrap an app.

        Args:
            app: The app.
            places: Number of concurrent readers.
            most_waiting: Maximum number of waiting readers; others get 503.
        """
        self._app = app
        self._places = asyncio.Semaphore(places)
        self._most_waiting = most_waiting
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a place for a reader until the response begins, because sending it is cheap.

        So event streams hold no place. Probes and the login page, which have no caller, need none.
        """
        if scope["type"] != "http" or scope["method"] not in SAFE or scope["state"].get("caller") is None:
            await self._app(scope, receive, send)
            return
        if self._waiting >= self._most_waiting:
            answer = problem(503, "too many concurrent readers; try again", headers={"Retry-After": "1"})
            await answer(scope, receive, send)
            return
        async with AsyncExitStack() as stack:

            async def send_and_leave(message: Message) -> None:
                await stack.aclose()
                await send(message)

            await self._wait(stack)
            await self._app(scope, receive, send_and_leave)

    async def _wait(self, stack: AsyncExitStack) -> None:
        self._waiting += 1
        try:
            await stack.enter_async_context(self._places)
        finally:
            self._waiting -= 1
