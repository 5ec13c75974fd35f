"""Connections that say nothing, or say it too slowly, are closed; all others are served as long as they like."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from service.api.header_timeout import HeaderTimeoutProtocol, server_options

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Hasty(HeaderTimeoutProtocol):
    longest_s = 0.5


async def answer_slowly(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(Hasty.longest_s * 1.5)
    await PlainTextResponse("done")(scope, receive, send)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    options = server_options(2000) | {"http": Hasty}
    server = uvicorn.Server(uvicorn.Config(answer_slowly, port=0, lifespan="off", log_config=None, **options))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


async def read_until_closed(port: int, *parts: bytes, pause_s: float = 0) -> bytes:
    """What comes back until the other side ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"G", GET])
async def test_a_head_that_does_not_end_is_not_waited_for(port: int, begun: bytes) -> None:
    assert await read_until_closed(port, begun) == b""


async def test_dripping_does_not_help(port: int) -> None:
    drops = [GET, *(b"X-%d: 1\r\n" % number for number in range(8))]
    assert await read_until_closed(port, *drops, pause_s=Hasty.longest_s / 4) == b""


async def test_an_answer_may_take_longer(port: int) -> None:
    assert (await read_until_closed(port, GET + b"Connection: close\r\n\r\n")).endswith(b"done")


async def test_so_it_is_for_the_second_request_of_a_connection(port: int) -> None:
    answered = await read_until_closed(port, GET + b"\r\n", GET, pause_s=Hasty.longest_s * 2)
    assert answered.count(b"done") == 1


async def test_a_head_that_comes_in_parts_but_in_time_is_served(port: int) -> None:
    parts = GET, b"Connection: close\r\n", b"\r\n"
    assert (await read_until_closed(port, *parts, pause_s=Hasty.longest_s / 8)).endswith(b"done")


async def test_a_head_beyond_the_limit_is_refused(port: int) -> None:
    assert (await read_until_closed(port, GET + b"X: " + b"x" * 5000)).startswith(b"HTTP/1.1 400")
