"""Server-sent events of a search, resumable as far back as this process remembers."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import TypeAdapter

from service.api.dependencies import Named, Running, needs
from service.api.problems import PROBLEMS
from service.events import PublishedEvent
from service.security.scopes import Scope

router = APIRouter(prefix="/searches/{id}", tags=["searches"], responses=PROBLEMS)

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, each with a JSON object as its data: see docs/reference/rest.md.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
_DOCUMENT = TypeAdapter(PublishedEvent)


def _sent(announcement: PublishedEvent) -> ServerSentEvent:
    document = _DOCUMENT.dump_python(announcement, mode="json")
    data = {"at": document["at"], **document["event"]}
    return ServerSentEvent(id=announcement.id, event=announcement.event.kind, data=data)


@router.get("/events", response_class=EventSourceResponse, responses=STREAM, dependencies=[needs(Scope.READ)])
async def events(
    search: Named, running: Running, last_event_id: Annotated[str | None, Header(max_length=64)] = None
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of a search. After `stream.reset` read the search again, then continue."""
    async for announcement in running.events.subscribe(search.id, after=last_event_id):
        yield _sent(announcement)
