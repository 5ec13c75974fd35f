"""Transport to an ASGI app in this process, with streamed answers.

httpx's own transport for such apps returns an answer when it is complete, which an event stream never is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import httpx

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]


class InProcessTransport(httpx.AsyncBaseTransport):
    """Transport that calls an ASGI app in place of the network."""

    def __init__(self, app: ASGIApp) -> None:
        """Prepare to call an app that is already started."""
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request.

        Raises:
            httpx.RemoteProtocolError: If the app ends without an answer.
        """
        call = _Call(await request.aread())
        call.task = asyncio.create_task(_run(self._app, _scope(request), call))
        begun = await call.sent.get()
        if begun is None:
            await call.end()
            raise httpx.RemoteProtocolError("the app gave no answer", request=request)
        return httpx.Response(begun["status"], headers=begun["headers"], stream=_Body(call))


class _Call:
    """One request in progress: its body, and the messages that the app has sent."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self.sent: asyncio.Queue[Message | None] = asyncio.Queue(maxsize=16)
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.sent.put(message)

    def finish(self) -> None:
        """Signal the end of the answer. A full queue has no reader, so its oldest message may go."""
        if self.sent.full():
            self.sent.get_nowait()
        self.sent.put_nowait(None)

    async def end(self) -> None:
        """Disconnect from the app, and wait for its end."""
        self._left.set()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.exception()  # The app has logged its own errors.


class _Body(httpx.AsyncByteStream):
    """Body of an answer, in the parts that the app sends."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._call.sent.get()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    async def aclose(self) -> None:
        await self._call.end()


async def _run(app: ASGIApp, scope: Message, call: _Call) -> None:
    """Run the app for one request, then signal the end."""
    try:
        await app(scope, call.receive, call.send)
    finally:
        call.finish()


def _scope(request: httpx.Request) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
