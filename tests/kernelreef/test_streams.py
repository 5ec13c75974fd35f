"""Events out of lines, and a watch that outlives its connection and its service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kernelreef import AsyncReef, Event
from kernelreef.streams import parse
from service.errors import NotFound
from tests.service.serving import Served

AT = "2026-01-02T03:04:05Z"
SEARCH = "0190a000-0000-7000-8000-000000000001"


async def lines(text: str) -> AsyncIterator[str]:
    for line in text.split("\n"):
        yield line


async def test_events_are_read_out_of_lines() -> None:
    text = (
        f': a sign of life\n\nid: a-1\nevent: elite.promoted\ndata: {{"at": "{AT}", "cell": 4}}\n\n'
        f'retry: 3\nid:a-2\nevent:new.kind\ndata:{{"at": "{AT}",\ndata: "word": "a: b"}}\n\nid: a-3\ndata: {{"at'
    )
    found = [event async for event in parse(lines(text))]
    assert [(event.id, event.kind, event.data) for event in found] == [
        ("a-1", "elite.promoted", {"cell": 4}),
        ("a-2", "new.kind", {"word": "a: b"}),
    ]
    assert found[0].at.tzinfo is not None


@pytest.mark.parametrize(("state", "last"), [("running", False), ("paused", False), ("done", True), ("failed", True)])
def test_the_last_event_is_known(state: str, last: bool) -> None:
    changed = Event(id="a-1", kind="search.changed", at=AT, data={"state": state})
    assert changed.is_last is last
    assert not changed.model_copy(update={"kind": "candidate.judged"}).is_last


class Broken(httpx.AsyncBaseTransport):
    """A service whose event streams break: the first before it answers, the others after an event each."""

    def __init__(self) -> None:
        self.after: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith("/events")
        self.after.append(request.headers.get("last-event-id"))
        if len(self.after) == 1:
            raise httpx.ConnectError("refused", request=request)
        state = "stopped" if len(self.after) > 4 else "running"
        text = f'id: a-{len(self.after)}\nevent: search.changed\ndata: {{"at": "{AT}", "state": "{state}"}}\n\n'
        return httpx.Response(503 if len(self.after) == 4 else 200, text=text, request=request)


async def test_a_broken_connection_is_taken_up_after_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelreef.streams.WAIT_INITIAL_S", 0.01)
    transport = Broken()
    async with AsyncReef("http://reef.example.org", transport=transport) as reef:
        seen = [event.id async for event in reef.events(SEARCH, after="a-0")]
    assert seen == ["a-2", "a-3", "a-5"]
    assert transport.after == ["a-0", "a-0", "a-2", "a-3", "a-3"]


async def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelreef.streams.WAIT_INITIAL_S", 0.001)
    monkeypatch.setattr("kernelreef.streams.PATIENCE", 2)
    async with AsyncReef("http://127.0.0.1:9") as reef:
        with pytest.raises(Exception, match="does not answer"):
            await anext(aiter(reef.events(SEARCH)))


async def _all(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def test_a_watch_outlives_a_restart_of_the_service(tmp_path: Path) -> None:
    with Served(tmp_path) as service:
        async with AsyncReef(service.url) as reef:
            search = await reef.submit("rmsnorm")
            events = reef.events(search.id)
            first = await anext(events)
            assert first.kind == "stream.reset" and first.search is not None
            await reef.pause(search.id)
            paused = await anext(events)
            assert paused.data["state"] == "paused"
            await asyncio.to_thread(service.stop)  # A watch that is open holds nothing up.
            rest = asyncio.create_task(_all(events))
            await asyncio.to_thread(service.start)
            await reef.stop(search.id)
            # Whether what came before the stop is told again or to be read anew is the service's to say.
            last = (await asyncio.wait_for(rest, 60))[-1]
            assert last.is_last
            with pytest.raises(NotFound):
                await anext(aiter(reef.events(SEARCH)))
