"""Works for a few readers at a time, however many there are: deciding shares one event loop and one pool with them.

Each step of the search loop waits for its turn among all that is going on. With two hundred requests going on at once
it would have one turn in two hundred; with a few of them it goes on at nearly its own pace, and the readers wait no
longer in all, for the work is the same.
"""

import asyncio
from contextlib import AsyncExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.csrf import SAFE
from service.api.problems import problem

PLACES = 4
"""Readers worked for at once: enough that one has work for us while others wait for the database."""
MOST_WAITING = 1_000
"""Readers that may wait for a place. More would wait for longer than anybody does, and ask again meanwhile."""


class ReaderLimit:
    """Lets a few readers in at a time, in the order they came. Who changes something never waits behind them."""

    def __init__(self, app: ASGIApp, places: int = PLACES, most_waiting: int = MOST_WAITING) -> None:
        """Prepare.

        Args:
            app: What answers.
            places: Readers that it works for at once.
            most_waiting: Readers that may wait; others are told to come again.
        """
        self._app = app
        self._places = asyncio.Semaphore(places)
        self._most_waiting = most_waiting
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a reader wait for a place, which is free again when the answer begins: from there on it only flows.

        Streams of events so hold none, and neither does whoever is no caller: probes, and the page to log in.
        """
        if scope["type"] != "http" or scope["method"] not in SAFE or scope["state"].get("caller") is None:
            await self._app(scope, receive, send)
            return
        if self._waiting >= self._most_waiting:
            answer = problem(503, "too many are reading at this moment; try again", headers={"Retry-After": "1"})
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
