"""Stream of a search's events, across broken connections and restarts of the service."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from kernelreef import models
from kernelreef.errors import Unavailable
from kernelreef.states import ENDED
from kernelreef.transport import RestTransport, at

CHANGED, RESET = "search.changed", ("stream.reset", "stream.reread")
"""Kinds of events that the client acts on; it passes on all others. Services of 0.1 send `stream.reread`."""
SILENCE_S = 60.0
"""Maximum silence before the connection counts as dead, seconds; the service sends a heartbeat every few seconds."""
PATIENCE = 14
"""Maximum number of connection failures in a row; with the waits between them, most of a minute."""
WAIT_INITIAL_S, WAIT_MOST_S = 0.2, 5.0


class Event(BaseModel):
    """Event of a search.

    Attributes:
        id: Id, with which a watch resumes after this event.
        kind: `search.changed`, `candidate.judged`, `elite.promoted`, `stream.reset`, or one that later versions add.
        at: Time of the event, UTC.
        data: Fields of the event, by name.
        search: On `stream.reset` the present search; earlier events are lost.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: str
    at: datetime
    data: Mapping[str, JsonValue]
    search: models.Search | None = None

    @property
    def is_last(self) -> bool:
        """True if the search has ended: no event follows."""
        if self.search is not None:
            return self.search.state in ENDED
        return self.kind == CHANGED and self.data.get("state") in ENDED


async def parse(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Parse events from the lines of a `text/event-stream` (HTML living standard, section 9.2.6).

    Yields:
        Events in order, without comments and unknown fields.
    """
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(":")
        if name in ("id", "event"):
            fields[name] = value.removeprefix(" ")
        elif name == "data":
            so_far = f"{fields['data']}\n" if "data" in fields else ""
            fields["data"] = so_far + value.removeprefix(" ")
        elif not line and "data" in fields:
            data = json.loads(fields["data"])
            yield Event(id=fields.get("id", ""), kind=fields.get("event", "message"), at=data.pop("at"), data=data)
            fields = {}


async def follow(
    wire: RestTransport, search: str, read_again: Callable[[], Awaitable[models.Search]], after: str | None
) -> AsyncIterator[Event]:
    """Stream the events of a search until it ends.

    Args:
        wire: The service.
        search: Id of the search.
        read_again: Reads the search again.
        after: Id of the last event seen; None to begin with the search as it is.

    Yields:
        Events in order.

    Raises:
        NotFound: If there is no such search.
        Unavailable: If the service is unreachable for too long.
    """
    failures = 0
    while True:
        try:
            headers = {"Last-Event-ID": after} if after else {}
            async with wire.stream(at("/searches/{}/events", search), headers, SILENCE_S) as answer:
                async for event in parse(answer.aiter_lines()):
                    failures, after = 0, event.id
                    if event.kind in RESET:
                        event = event.model_copy(update={"search": await read_again()})
                    yield event
                    if event.is_last:
                        return
        except Unavailable:
            if failures >= PATIENCE:
                raise
        await asyncio.sleep(min(WAIT_INITIAL_S * 2**failures, WAIT_MOST_S))
        failures += 1
