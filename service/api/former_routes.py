"""Former addresses of routes, which lead to the current ones for one release."""

import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORMER = (
    (re.compile(r"/api/v1/workers/[^/]+/standing"), "standing", "status"),
    (re.compile(r"/api/v1/operators/[^/]+/gate"), "gate", "mutation-report"),
    (re.compile(r"/api/v1/backends/[^/]+/unpark"), "unpark", "enable"),
)
"""Paths of former routes, with the last part as it was and as it is."""


class FormerRoutes:
    """Middleware that serves a former address as the current one, with the headers `Deprecation` and `Link`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        current = current_path(scope["path"]) if scope["type"] == "http" else None
        if current is None:
            await self._app(scope, receive, send)
            return

        async def send_deprecated(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Deprecation"] = "true"
                headers.append("Link", f'<{current}>; rel="successor-version"')
            await send(message)

        await self._app({**scope, "path": current, "raw_path": current.encode()}, receive, send_deprecated)


def current_path(path: str) -> str | None:
    """Return the current path of a former route; None if it is not a former route."""
    for former, old, new in FORMER:
        if former.fullmatch(path):
            return path.removesuffix(old) + new
    return None
