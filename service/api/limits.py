"""How much a client may send."""

from starlette.datastructures import Headers
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.problems import problem


class BodyLimit:
    """Refuses large bodies with a problem document: at once if they say their size, else once they have outgrown it.

    Starlette's own middleware does the counting; by itself it answers in plain text.
    """

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        """Put a limit of `most_bytes` around an app."""
        self._app = RequestBodyLimitMiddleware(app, most_bytes)
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough."""
        if scope["type"] == "http" and self._too_large(Headers(scope=scope).get("content-length")):
            refusal = problem(413, f"a body may have up to {self._most_bytes} bytes")
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _too_large(self, length: str | None) -> bool:
        """Whether a stated length is over the limit, or no length at all. Twenty digits are too many to look at."""
        return length is not None and not (length.isdecimal() and len(length) < 20 and int(length) <= self._most_bytes)
