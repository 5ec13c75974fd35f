"""Cursor paging: every list is `{"items": [...], "next": "..."}`, and `next` is what asks for the rest.

A cursor names the last thing seen, never a position, so what is added or removed meanwhile shifts nothing.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from service.errors import BadInput

Item = TypeVar("Item")
Shown = TypeVar("Shown")

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What every id looks like: a UUID in lower case."""
NO_CURSOR = "this is no cursor; use `next` of an earlier answer as it is"

Limit = Annotated[int, Query(ge=1, le=200, description="Most items in one answer.")]
Cursor = Annotated[str | None, Query(max_length=256, description="`next` of the answer before.")]


class Page(BaseModel, Generic[Shown]):
    """One part of a list. `next` is None at its end."""

    items: list[Shown]
    next: str | None


def encode(key: Sequence[int | float | str]) -> str:
    """A cursor for the thing that a key names."""
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")


def decode(cursor: str | None, *kinds: type | tuple[type, ...]) -> list[Any] | None:
    """The key in a cursor, None without one.

    Args:
        cursor: What a client sent.
        kinds: Types of the key's parts, in order.

    Raises:
        BadInput: If no answer of ours held this cursor.
    """
    if cursor is None:
        return None
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or len(key) != len(kinds) or not all(map(isinstance, key, kinds)):
        raise BadInput(NO_CURSOR, "cursor")
    return key


def page(
    items: Sequence[Item], limit: int, key: Callable[[Item], Sequence[int | float | str]], show: Callable[[Item], Shown]
) -> Page[Shown]:
    """The first `limit` of the items as a page. Pass one item more than that, and `next` will know if there is more."""
    shown = items[:limit]
    more = len(items) > limit
    return Page(items=[show(item) for item in shown], next=encode(key(shown[-1])) if more else None)


def decode_id(cursor: str | None) -> str | None:
    """The id in a cursor, None without one.

    Raises:
        BadInput: If no answer of ours held this cursor.
    """
    key = decode(cursor, str)
    if key is None:
        return None
    if not ID.fullmatch(key[0]):
        raise BadInput(NO_CURSOR, "cursor")
    return str(key[0])
