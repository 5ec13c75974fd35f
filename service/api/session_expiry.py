"""Ends answers that go on and on, such as streams of events, soon after their caller's token has come to an end."""

import time
from contextlib import suppress
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archive.errors import ArchiveError

LOOK_AGAIN_S = 10.0
"""How often a token is looked up while an answer goes on; streams of ours say something at least every 15 s."""


class SessionEnded(Exception):
    """The caller may not hear any more."""


class SessionExpiry:
    """Looks up the caller's token again and again while an answer goes on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on everything, until the token is not usable any more."""
        caller = scope["state"].get("caller") if scope["type"] == "http" else None
        if caller is None or caller.token is None:
            await self._app(scope, receive, send)
            return
        looked_at = time.monotonic()

        async def send_while_usable(message: Message) -> None:
            nonlocal looked_at
            if message.get("more_body", False) and time.monotonic() - looked_at >= LOOK_AGAIN_S:
                looked_at = time.monotonic()
                if not await _is_usable(Request(scope), caller.token):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    raise SessionEnded
            await send(message)

        try:
            await self._app(scope, receive, send_while_usable)
        except* SessionEnded:
            # What was left of the answer is not wanted; tasks that made it have ended by this.
            pass


async def _is_usable(request: Request, token: str) -> bool:
    """Whether a token is still good; an archive that does not answer ends nothing."""
    with suppress(ArchiveError):
        kept = await request.app.state.coordinator.store.tokens.get(token)
        return bool(kept.is_usable(datetime.now(UTC)))
    return True
