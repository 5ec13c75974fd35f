"""A vendor that does whatever a test asks of it: a plain TCP server that speaks just enough HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Serve = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """What came in: path, headers in lower case, and the parsed body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Vendor:
    """The server. It serves the steps of its script in turn, the last one for good."""

    port: int = 0
    script: list[Serve] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def will(self, *steps: Serve) -> "Vendor":
        """Follow a script from now on."""
        self.script[:] = steps
        return self

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read(reader)
            self.requests.append(request)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            await step(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    parts = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in parts}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split(" ")[1], headers, json.loads(body) if body else {})


@asynccontextmanager
async def vendor() -> AsyncIterator[Vendor]:
    """A running vendor on a port of its own."""
    running = Vendor()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()


def raw(data: bytes, *, after_s: float = 0.0) -> Serve:
    """Send bytes as they are, and close."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(after_s)
        writer.write(data)

    return serve


def reply(
    status: int = 200,
    body: object = None,
    *,
    kind: str = "application/json",
    length: int | None = None,
    after_s: float = 0.0,
    **headers: str,
) -> Serve:
    """Send a response. `length` may claim more than there is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {length or len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode() + content, after_s=after_s)


def held(step: Serve, until: asyncio.Event) -> Serve:
    """Serve a step once a test lets it go."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        await until.wait()
        await step(request, writer)

    return serve


def trickle(every_s: float = 0.05) -> Serve:
    """Begin an answer and send a byte now and then, without end."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
        while True:
            await asyncio.sleep(every_s)
            writer.write(b" ")
            await writer.drain()

    return serve


def flood(most_bytes: int) -> Serve:
    """Send more than anybody wants."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
        for _ in range(most_bytes // 65_536):
            writer.write(b" " * 65_536)
            await writer.drain()

    return serve


def chat(text: str | None = "```python\n```", **changes: Any) -> dict[str, Any]:
    """A chat completion as OpenAI's servers send it."""
    message = {"role": "assistant", "content": text, "refusal": changes.pop("refusal", None)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "model-1",
        "choices": [{"index": 0, "message": message, "finish_reason": changes.pop("finish_reason", "stop")}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46},
        **changes,
    }


def message(text: str = "```python\n```", **changes: Any) -> dict[str, Any]:
    """A message as Anthropic's servers send it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 34},
        **changes,
    }


def response(text: str = "```python\n```", cut: str = "", **changes: Any) -> dict[str, Any]:
    """A response as OpenAI's Responses API sends it; `cut` is the reason of an incomplete one."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "resp_1",
        "object": "response",
        "model": "model-1",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "error": None,
        "output": [{"type": "message", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 12, "output_tokens": 34, "total_tokens": 46},
        **changes,
    }


def events(*said: object, end: str = "data: [DONE]\n\n", kind: str = "text/event-stream", hold: bool = False) -> Serve:
    """Send a stream of events, each an object, or a name with one; `hold` keeps the connection open behind it."""

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n: PROCESSING\n\n".encode())
        for each in said:
            name, event = each if isinstance(each, tuple) else ("", each)
            writer.write((f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(event)}\n\n".encode())
        writer.write(end.encode())
        await writer.drain()
        if hold:
            await asyncio.sleep(30)

    return serve
