"""Watching over a real connection: events as they happen, resumed by id, in the form that browsers read."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
import uvicorn

from service.events import SearchChanged

pytestmark = pytest.mark.asyncio(loop_scope="module")

Sent = tuple[str, str, dict[str, Any]]
"""An event as it came: id, name, data."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wire(service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that talks to the app through a socket; in-process transports hold streams back until they end."""
    server = uvicorn.Server(uvicorn.Config(service.app, port=0, lifespan="off", log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=20) as client:
        yield client
    server.should_exit = True
    await task


@asynccontextmanager
async def watched(wire: httpx.AsyncClient, search: str, after: str | None = None) -> AsyncIterator[AsyncIterator[Sent]]:
    """The events of a search as they come in."""
    headers = {} if after is None else {"Last-Event-ID": after}
    async with wire.stream("GET", f"/searches/{search}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield parsed(answer.aiter_lines())


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[Sent]:
    """Events out of the lines of a stream."""
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif fields:
            yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}


async def submitted(wire: httpx.AsyncClient) -> str:
    """Id of a new search."""
    return str((await wire.post("/searches", json={"operator": "rmsnorm"})).json()["id"])


async def test_a_stream_begins_with_a_reread_and_tells_what_happens(wire: httpx.AsyncClient, service) -> None:
    search = await submitted(wire)
    async with watched(wire, search) as events:
        assert (await anext(events))[1] == "stream.reset"
        service.coordinator.events.publish(SearchChanged(search="another", state="done"))
        await wire.post(f"/searches/{search}/pause")
        _, name, data = await anext(events)
    assert name == "search.changed"
    assert (data["search"], data["state"]) == (search, "paused")
    assert data["at"].endswith("Z")


async def test_a_stream_resumes_after_the_last_event_seen(wire: httpx.AsyncClient) -> None:
    search = await submitted(wire)
    async with watched(wire, search) as events:
        await anext(events)
        await wire.post(f"/searches/{search}/pause")
        last, _, _ = await anext(events)
    await wire.post(f"/searches/{search}/resume")
    await wire.post(f"/searches/{search}/stop")
    async with watched(wire, search, after=last) as events:
        assert [(await anext(events))[2]["state"] for _ in range(2)] == ["preparing", "stopped"]


async def test_an_id_of_another_life_begins_with_a_reread(wire: httpx.AsyncClient) -> None:
    search = await submitted(wire)
    async with watched(wire, search, after="00000000-7") as events:
        assert (await anext(events))[1] == "stream.reset"


async def test_a_client_that_leaves_is_forgotten(wire: httpx.AsyncClient, service) -> None:
    bus = service.coordinator.events
    async with asyncio.timeout(20):
        while bus.watchers:  # Those of earlier tests leave a moment later.
            await asyncio.sleep(0.01)
    async with watched(wire, await submitted(wire)) as events:
        await anext(events)
        assert bus.watchers == 1
    async with asyncio.timeout(20):
        while bus.watchers:
            await asyncio.sleep(0.01)
    assert bus.watchers == 0


async def test_an_unknown_search_has_no_stream(wire: httpx.AsyncClient) -> None:
    answer = await wire.get("/searches/0190a000-0000-7000-8000-000000000000/events")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
