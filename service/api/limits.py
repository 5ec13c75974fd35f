"""How much a client may send, and how long it may take: headers, bodies, and how deep JSON may nest."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import problem
from service.security.json_depth import DEEPEST, is_too_deep
from service.security.storable_text import holds_unkept

MOST_HEADERS = 100
"""Headers of a request; browsers send about twenty."""
MOST_HEADER_BYTES = 16 * 2**10
"""All headers together, in bytes: twice what servers commonly take, for long cookies of other services on the host."""
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose bodies mean nothing (RFC 9110, 9.3.1) and are never read."""
NOT_JSON = ("application/x-www-form-urlencoded", "multipart/form-data")
"""Content that no JSON parser sees; brackets in it are only text."""


class HeaderLimit:
    """Refuses requests with more, or longer, headers than anybody needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough, with a place for what we find out about the request."""
        if scope["type"] == "http":
            scope.setdefault("state", {})
            headers = scope["headers"]
            size = sum(len(name) + len(value) for name, value in headers)
            if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
                detail = f"a request may have up to {MOST_HEADERS} headers of {MOST_HEADER_BYTES} bytes in all"
                await problem(431, detail)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyRefused(Exception):
    """A body that is not taken: the status and why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class BodyLimit:
    """Reads the whole body before anybody works on it, and refuses what is too large, too slow or nested too deep.

    What was read is in `scope["state"]["body"]`, and is handed on as if it had just come.
    """

    def __init__(self, app: ASGIApp, most_bytes: int, longest_s: float) -> None:
        """Put limits around an app.

        Args:
            app: What takes the request then.
            most_bytes: Largest body.
            longest_s: Seconds until all of it must have come.
        """
        self._app = app
        self._most_bytes = most_bytes
        self._longest_s = longest_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is within the limits."""
        if scope["type"] != "http" or scope["method"] in BODILESS:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except BodyRefused as refused:
            # The rest of the body is not waited for, so nothing else can follow on this connection.
            answer = problem(refused.status, refused.detail, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        if body is not None:
            scope["state"]["body"] = body
            await self._app(scope, _first(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None if the client went away.

        Raises:
            Refused: If it is over a limit.
        """
        length = headers.get("content-length")
        if length is not None and not self._is_small(length):
            raise BodyRefused(413, f"a body may have up to {self._most_bytes} bytes")
        try:
            async with asyncio.timeout(self._longest_s):
                body = await self._collect(receive)
        except TimeoutError as error:
            raise BodyRefused(408, f"the body did not come within {self._longest_s:g} s") from error
        if body and not headers.get("content-type", "").startswith(NOT_JSON):
            _require_plain(body)
        return body

    def _is_small(self, length: str) -> bool:
        """Whether a stated length is within the limit. Twenty digits are too many to look at."""
        return length.isdecimal() and len(length) < 20 and int(length) <= self._most_bytes

    async def _collect(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                raise BodyRefused(413, f"a body may have up to {self._most_bytes} bytes")
            if not message.get("more_body", False):
                return bytes(body)


def _require_plain(body: bytes) -> None:
    """Refuse what a JSON parser could choke on.

    JSON is UTF-8 (RFC 8259, 8.1); parsers that also guess UTF-16 would see other brackets than we do.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BodyRefused(400, "the body is not UTF-8") from error
    if b"\0" in body:
        raise BodyRefused(400, "the body is not UTF-8: it holds zero bytes")
    if is_too_deep(body):
        raise BodyRefused(400, f"brackets in the body do not pair, or nest deeper than {DEEPEST} levels")
    if holds_unkept(body):
        raise BodyRefused(400, "no text in a body may hold NUL or half a character")


def _first(body: bytes, receive: Receive) -> Receive:
    """A channel that brings the body, then whatever comes."""
    waiting = [body]

    async def bring() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return bring
