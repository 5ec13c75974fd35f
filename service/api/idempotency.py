"""Idempotency keys: a repeated POST gets the first response and is not executed again.

As in draft-ietf-httpapi-idempotency-key-header-07, the same key with another request gets 422. While the first request
is in progress it gets 409. The id of a new resource is stored with the key before the resource exists. So a retry
finishes an interrupted attempt, and nothing is created twice.
"""

import hashlib
import re
from datetime import UTC, datetime

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid6 import uuid7

from archive.errors import ArchiveError
from archive.records import IdempotencyRecord
from archive.store.idempotency import IdempotencyStore
from service.api.problems import answer_archive_error, problem

HEADER = "idempotency-key"
KEY = re.compile(r'"?([!#-\[\]-~]{1,255})"?')
"""Pattern of a key: printable ASCII. The draft requires quotes, but most clients send none."""
REPLAYED = "Idempotent-Replayed"
"""Header that marks a repeated response, by the name that other services use."""
KEPT_HEADERS = ("content-type", "location", "cache-control")
MOST_BYTES = 2**20
"""Maximum size of a stored response; ours are a few kilobytes. Larger ones are not repeated."""
SECRET = "no-store"
"""`Cache-Control` of responses with a secret. They are not stored: the archive holds no secrets."""


class IdempotencyMiddleware:
    """Middleware that executes a POST with an idempotency key once per caller."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Repeat the stored response, or pass the request on and store its response. The body must have been read."""
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] == "POST" else None
        caller = scope.get("state", {}).get("caller")
        if key is None or caller is None:
            await self._app(scope, receive, send)
            return
        found = KEY.fullmatch(key)
        if found is None:
            await problem(400, f"{HEADER} must be 1 to 255 printable ASCII characters")(scope, receive, send)
            return
        request = Request(scope)
        replies: IdempotencyStore = request.app.state.coordinator.store.replies
        try:
            kept, mine = await replies.claim(_attempt(request, caller.token or caller.name, found[1]))
        except ArchiveError as error:
            await answer_archive_error(request, error)(scope, receive, send)
            return
        if mine:
            request.state.resource = kept.resource
            await _Attempt(kept, replies, send).run(self._app, scope, receive)
        else:
            await _again(kept, _fingerprint(request))(scope, receive, send)


class _Attempt:
    """One attempt to answer. The response is stored before any of it is sent."""

    def __init__(self, claimed: IdempotencyRecord, replies: IdempotencyStore, send: Send) -> None:
        self._claimed = claimed
        self._replies = replies
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()
        self._done = False

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        try:
            await app(scope, receive, self._take)
        finally:
            if not self._done:
                await self._replies.put_back(self._claimed)

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        assert self._start is not None
        await self._keep(self._start["status"], Headers(raw=self._start["headers"]))
        self._done = True
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": bytes(self._body)})

    async def _keep(self, status: int, headers: Headers) -> None:
        if status >= 500:
            await self._replies.put_back(self._claimed)
        elif status >= 400 or len(self._body) > MOST_BYTES:
            await self._replies.forget(self._claimed)
        else:
            kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
            body = b"" if kept.get("cache-control") == SECRET else bytes(self._body)
            await self._replies.settle(self._claimed, status, kept, body)


def _attempt(request: Request, caller: str, key: str) -> IdempotencyRecord:
    at = datetime.now(UTC)
    return IdempotencyRecord(
        caller=caller,
        key=key,
        fingerprint=_fingerprint(request),
        resource=str(uuid7()),
        created_at=at,
        claimed_at=at,
        status=None,
        headers={},
        body=b"",
    )


def _fingerprint(request: Request) -> str:
    """Hash what identifies a request: path, query and body."""
    parts = (request.scope["path"].encode(), request.scope["query_string"], request.scope["state"]["body"])
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _again(kept: IdempotencyRecord, fingerprint: str) -> Response:
    if kept.fingerprint != fingerprint:
        return problem(422, f"this {HEADER} was used for another request; use a new one")
    if kept.status is None:
        return problem(409, "the first request with this key is still in progress", headers={"Retry-After": "1"})
    if kept.headers.get("cache-control") == SECRET:
        detail = f"this request was executed; its response held a secret and is not stored. It created {kept.resource}"
        return problem(409, detail)
    return Response(kept.body, kept.status, {**kept.headers, REPLAYED: "true"})
