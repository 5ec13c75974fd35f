"""A few readers are worked for at a time; who changes something, watches or probes does not wait behind them."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.concurrency import ReaderLimit

PLACES = 2
MOST_WAITING = 3


class Known:
    """What the gate does: says who is calling."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"caller": None if scope["path"] == "/healthz" else "somebody"}
        await self._app(scope, receive, send)


class Slow:
    """An app whose pages come when they are let go; counts what is being worked on."""

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.now = 0
        self.most = 0
        self.app = FastAPI()
        self.app.get("/page")(self.page)
        self.app.get("/healthz")(self.quick)
        self.app.post("/stop")(self.quick)
        self.app.get("/events")(self.events)
        self.app.get("/broken")(self.broken)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(
                Known(ReaderLimit(self.app, PLACES, MOST_WAITING)), raise_app_exceptions=False
            ),
            base_url="http://127.0.0.1",
        )

    async def page(self) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.going.wait()
        self.now -= 1
        return "a page"

    async def quick(self) -> str:
        return "done"

    async def broken(self) -> str:
        raise RuntimeError("broken")

    async def events(self) -> StreamingResponse:
        async def endless() -> AsyncIterator[bytes]:
            yield b"first"
            await self.going.wait()

        return StreamingResponse(endless())

    def ask(self, count: int, path: str = "/page") -> list["asyncio.Task[httpx.Response]"]:
        return [asyncio.create_task(self.client.get(path)) for _ in range(count)]


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    slow = Slow()
    async with slow.client:
        yield slow


async def test_no_more_than_there_are_places_are_worked_for(slow: Slow) -> None:
    asked = slow.ask(PLACES + MOST_WAITING)
    await asyncio.sleep(0.05)
    assert slow.now == PLACES
    slow.going.set()
    assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * len(asked)
    assert slow.most == PLACES


async def test_changes_and_probes_do_not_wait(slow: Slow) -> None:
    asked = slow.ask(PLACES + 1)
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        assert (await slow.client.post("/stop")).json() == "done"
        assert (await slow.client.get("/healthz")).json() == "done"
    slow.going.set()
    await asyncio.gather(*asked)


async def test_too_many_are_told_to_come_again(slow: Slow) -> None:
    asked = slow.ask(PLACES + MOST_WAITING)
    await asyncio.sleep(0.05)
    refused = await slow.client.get("/page")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.headers["content-type"] == "application/problem+json"
    slow.going.set()
    await asyncio.gather(*asked)
    assert (await slow.client.get("/page")).status_code == 200


async def test_an_answer_that_only_flows_holds_no_place(slow: Slow) -> None:
    watching = slow.ask(PLACES + MOST_WAITING, "/events")
    await asyncio.sleep(0.05)
    asked = slow.ask(1)
    await asyncio.sleep(0.05)
    assert slow.now == 1
    slow.going.set()
    assert [answer.text for answer in await asyncio.gather(*watching)] == ["first"] * len(watching)
    await asyncio.gather(*asked)


async def test_a_place_is_free_again_whatever_came_of_it(slow: Slow) -> None:
    for answer in await asyncio.gather(*slow.ask(PLACES + 1, "/broken")):
        assert answer.status_code == 500
    asked = slow.ask(PLACES)
    await asyncio.sleep(0.05)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    slow.going.set()
    async with asyncio.timeout(5):
        assert (await slow.client.get("/page")).status_code == 200
