"""Server-sent events in the forms that vendors send them."""

import pytest

from service.llm.event_stream import read_events


@pytest.mark.parametrize(
    "text, found",
    [
        ('data: {"a": 1}\n\ndata: [DONE]\n\n', [{"a": 1}]),
        ('data:{"a": 1}\r\n\r\ndata: {"a": 2}\r\n\r\n', [{"a": 1}, {"a": 2}]),
        (': ping\n\nevent: x\nid: 7\ndata: {"a": 1}\n\n', [{"type": "x", "a": 1}]),
        ('event: x\ndata: {"type": "y"}\n\n', [{"type": "y"}]),
        ('data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        ('data: {"a": 1}', [{"a": 1}]),
        ('data: {"a": 1}\ndata: {"a": 2}\ndata: [DONE]\n\n', [{"a": 1}, {"a": 2}]),
        ('data: {"a": 1}\n\ndata: {"b', [{"a": 1}]),
        ("data: 3\n\ndata: nonsense\n\n", []),
        ("", []),
    ],
)
def test_streams(text: str, found: list[dict[str, object]]) -> None:
    assert read_events(text) == found
