"""Server-sent events, the form in which vendors stream their answers."""

import json
from typing import Any


def read_events(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a stream, in order. Comments, other data and a cut last event are left out.

    The name of an event, which Anthropic and the Responses API repeat inside, becomes its `type` if it has none.
    """
    found: list[dict[str, Any]] = []
    name, data = "", list[str]()
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        if line:
            key, _, value = line.partition(":")
            if key == "data":
                data.append(value.removeprefix(" ").removeprefix("data: "))  # Some proxies pack a packed stream.
            elif key == "event":
                name = value.strip()
            continue
        whole = _parsed("\n".join(data))
        # Some servers leave the blank lines between events out.
        events = [whole] if whole is not None or len(data) < 2 else [_parsed(each) for each in data]
        found += [{"type": name, **event} if name else event for event in events if event is not None]
        name, data = "", []
    return found


def _parsed(data: str) -> dict[str, Any] | None:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
