"""Limits of requests: size of headers and body, time to send the body, and depth of JSON."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import problem
from service.security.json_depth import DEEPEST, is_too_deep
from service.security.storable_text import holds_unkept

MOST_HEADERS = 100
"""Maximum number of headers; browsers send about twenty."""
MOST_HEADER_BYTES = 16 * 2**10
"""Maximum size of all headers: twice the usual limit, for long cookies of other services on the host."""
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose bodies have no meaning (RFC 9110, 9.3.1) and are never read."""
NOT_JSON = ("application/x-www-form-urlencoded", "multipart/form-data")
"""Content types without a JSON parser; brackets in them are only text."""


class HeaderLimit:
    """Middleware that refuses too many or too long headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests within the limits, with a `state` for later middleware."""
        if scope["type"] == "http":
            scope.setdefault("state", {})
            headers = scope["headers"]
            size = sum(len(name) + len(value) for name, value in headers)
            if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
                detail = f"a request may have at most {MOST_HEADERS} headers with {MOST_HEADER_BYTES} bytes in total"
                await problem(431, detail)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyRefused(Exception):
    """Refusal of a body, with status and reason."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class BodyLimit:
    """Middleware that reads the whole body first, and refuses one that is too large, too slow or nested too deep.

    The body is in `scope["state"]["body"]`, and the app receives it as one message.
    """

    def __init__(self, app: ASGIApp, most_bytes: int, longest_s: float) -> None:
        """Wrap an app.

        Args:
            app: The app.
            most_bytes: Maximum size of a body.
            longest_s: Maximum seconds until the whole body has arrived.
        """
        self._app = app
        self._most_bytes = most_bytes
        self._longest_s = longest_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests within the limits."""
        if scope["type"] != "http" or scope["method"] in BODILESS:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except BodyRefused as refused:
            # The rest of the body is not read, so the connection cannot be reused.
            answer = problem(refused.status, refused.detail, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        if body is not None:
            scope["state"]["body"] = body
            await self._app(scope, _first(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Read the body. Returns None if the client disconnected.

        Raises:
            BodyRefused: If it exceeds a limit.
        """
        length = headers.get("content-length")
        if length is not None and not self._is_small(length):
            raise BodyRefused(413, f"a body may have at most {self._most_bytes} bytes")
        try:
            async with asyncio.timeout(self._longest_s):
                body = await self._collect(receive)
        except TimeoutError as error:
            raise BodyRefused(408, f"the body did not arrive within {self._longest_s:g} s") from error
        if body and not headers.get("content-type", "").startswith(NOT_JSON):
            _require_plain(body)
        return body

    def _is_small(self, length: str) -> bool:
        """Return True if a stated length is within the limit. Twenty digits are too long to parse."""
        return length.isdecimal() and len(length) < 20 and int(length) <= self._most_bytes

    async def _collect(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                raise BodyRefused(413, f"a body may have at most {self._most_bytes} bytes")
            if not message.get("more_body", False):
                return bytes(body)


def _require_plain(body: bytes) -> None:
    """Refuse bodies that could break a JSON parser.

    JSON is UTF-8 (RFC 8259, 8.1); a parser that also guesses UTF-16 would see other brackets than this check.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BodyRefused(400, "the body is not UTF-8") from error
    if b"\0" in body:
        raise BodyRefused(400, "the body contains zero bytes")
    if is_too_deep(body):
        raise BodyRefused(400, f"brackets in the body are unbalanced, or nest deeper than {DEEPEST} levels")
    if holds_unkept(body):
        raise BodyRefused(400, "text in the body contains NUL or an unpaired surrogate")


def _first(body: bytes, receive: Receive) -> Receive:
    """Make a channel that gives the body first, then further messages."""
    waiting = [body]

    async def bring() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return bring
