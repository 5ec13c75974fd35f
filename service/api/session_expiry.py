"""Middleware that ends long responses, such as event streams, soon after the caller's token ends."""

import time
from contextlib import suppress
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archive.errors import ArchiveError

LOOK_AGAIN_S = 10.0
"""Seconds between checks of the token during a response; our streams send something at least every 15 s."""


class SessionEnded(Exception):
    """The caller's token ended during the response."""


class SessionExpiry:
    """Middleware that checks the caller's token repeatedly during a response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the response until the token ends."""
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
            # The rest of the response is dropped; this exception has ended the tasks that made it.
            pass


async def _is_usable(request: Request, token: str) -> bool:
    """Return True if a token is valid; an archive that does not answer ends no response."""
    with suppress(ArchiveError):
        kept = await request.app.state.coordinator.store.tokens.get(token)
        return bool(kept.is_usable(datetime.now(UTC)))
    return True
