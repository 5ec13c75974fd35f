"""Cases of odd vendors: the vendor's steps, and what comes of one call at which price.

A prompt of 31 characters is at most 95 tokens (`P`), an answer at most 100 (`A`); a million tokens cost $1 in, $10 out.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.service.inquiry import PROMPT
from tests.service.llm.vendors import Serve, chat, events, raw, reply

P = 64 + len(PROMPT.system) + len(PROMPT.user)
A = PROMPT.max_tokens
CODE = "import torch\n\n\ndef scale(x):\n    return torch.empty_like(x)\n"
FENCED = f"```python\n{CODE}```\n"
GOOD = (12, 34)
"""Tokens that a vendor reports unless a case says otherwise."""
FREE, ALL = (0, 0), (P, A)
"""Tokens of a call that certainly cost nothing, and of one whose result is unknown."""


@dataclass(frozen=True)
class Case:
    """An oddity: the vendor's steps, the tokens that count, and the result: code, or a fault, or a failure."""

    steps: tuple[Serve, ...]
    tokens: tuple[int, int] = GOOD
    came: str = "code"
    kind: str = "openai"
    options: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    asked: int = 1


def openai(tokens: tuple[int, int] = GOOD, came: str = "code", **changes: Any) -> Case:
    """A chat completion with some fields changed."""
    return Case((reply(body=chat(changes.pop("text", FENCED), **changes)),), tokens, came)


def said(content: Any = None, came: str = "code", finish_reason: str = "stop", **more: Any) -> Case:
    """A chat completion whose message has other fields."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": finish_reason}
    return openai(came=came, choices=[choice])


def failed(status: int, body: Any, came: str, tokens: tuple[int, int] = FREE, calls: int = 0, **more: Any) -> Case:
    """A response with an error."""
    return Case((reply(status, body),), tokens, came, calls=calls, **more)


def streamed(*said: object, kind: str = "openai", **more: Any) -> Case:
    """A stream of events."""
    end = more.pop("end", "data: [DONE]\n\n")
    return Case((events(*said, end=end),), kind=kind, **more)


def delta(text: str = "", finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a chat completion's stream."""
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": finish}]}


def call(arguments: object, name: str = "python") -> dict[str, Any]:
    """A tool call."""
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def counted(text: str, answer: int, finish: str | None = None) -> dict[str, Any]:
    """A chunk with counts of its own."""
    return {**delta(text, finish), "usage": {"prompt_tokens": 12, "completion_tokens": answer}}


def torn(*parts: bytes) -> Serve:
    """A stream in chunks that breaks off."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return raw(head + b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts))


def lines(*said: object) -> bytes:
    """A JSON object per line."""
    return "\n".join(json.dumps(each) for each in said).encode()


def sent(*said: object) -> bytes:
    """Events as bytes, without a last one."""
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in said)


USAGE = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 34}}
WELL = reply(body=chat(FENCED))
