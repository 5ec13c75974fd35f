"""Requests to an app in this process: streamed, ended early, and failed."""

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from kernelreef.in_process import InProcessTransport

left = asyncio.Event()


async def echo(request: Request) -> JSONResponse:
    body = (await request.body()).decode()
    return JSONResponse({"path": request.url.path, "query": str(request.query_params), "body": body})


async def endless(request: Request) -> StreamingResponse:
    async def parts():
        try:
            while True:
                yield b"part "
                await asyncio.sleep(0.01)
        finally:
            left.set()

    return StreamingResponse(parts())


async def broken(request: Request) -> JSONResponse:
    raise RuntimeError("on purpose")


async def silent(scope, receive, send) -> None:
    return


APP = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/endless", endless), Route("/broken", broken)])


@pytest.fixture
async def client():
    async with httpx.AsyncClient(transport=InProcessTransport(APP), base_url="http://127.0.0.1") as client:
        yield client


async def test_a_request_arrives_as_it_was_sent(client: httpx.AsyncClient) -> None:
    answer = await client.post("/echo?a=1&b=c%20d", content="text")
    assert answer.json() == {"path": "/echo", "query": "a=1&b=c+d", "body": "text"}


async def test_an_answer_is_read_as_it_comes_and_left_early(client: httpx.AsyncClient) -> None:
    left.clear()
    async with client.stream("GET", "/endless") as answer:
        parts = answer.aiter_bytes()
        assert [await anext(parts) for _ in range(20)] == [b"part "] * 20
        assert not left.is_set()
    await asyncio.wait_for(left.wait(), 5)


async def test_an_app_that_fails_answers_all_the_same(client: httpx.AsyncClient) -> None:
    assert (await client.get("/broken")).status_code == 500


async def test_an_app_that_says_nothing_is_a_protocol_error() -> None:
    async with httpx.AsyncClient(transport=InProcessTransport(silent), base_url="http://127.0.0.1") as client:
        with pytest.raises(httpx.RemoteProtocolError, match="no answer"):
            await client.get("/")
