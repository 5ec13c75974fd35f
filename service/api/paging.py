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

from service.errors import InvalidInput
from service.security.storable_text import UNKEPT

Item = TypeVar("Item")
Shown = TypeVar("Shown")
Part = TypeVar("Part", int, str)

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What every id looks like: a UUID in lower case."""
MOST_NUMBER = 2**63
"""Numbers that databases count with are below it."""
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
    if not isinstance(key, list) or len(key) != len(kinds) or not all(map(_is_part, key, kinds)):
        raise InvalidInput(NO_CURSOR, "cursor")
    return key


def _is_part(value: object, kind: type | tuple[type, ...]) -> bool:
    """Whether a database can be asked for what comes after a value; whoever made a cursor up may have written any."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    if isinstance(value, str):
        return UNKEPT.search(value) is None
    return not isinstance(value, int) or -MOST_NUMBER <= value < MOST_NUMBER


def page(
    items: Sequence[Item], limit: int, key: Callable[[Item], Sequence[int | float | str]], show: Callable[[Item], Shown]
) -> Page[Shown]:
    """The first `limit` of the items as a page. Pass one item more than that, and `next` will know if there is more."""
    shown = items[:limit]
    more = len(items) > limit
    return Page(items=[show(item) for item in shown], next=encode(key(shown[-1])) if more else None)


def decode_number(cursor: str | None) -> int | None:
    """The number in a cursor, None without one.

    Raises:
        BadInput: If no answer of ours held this cursor.
    """
    return _decode_one(cursor, int, lambda number: number >= 0)


def decode_id(cursor: str | None) -> str | None:
    """The id in a cursor, None without one.

    Raises:
        BadInput: If no answer of ours held this cursor.
    """
    return _decode_one(cursor, str, lambda text: ID.fullmatch(text) is not None)


def _decode_one(cursor: str | None, kind: type[Part], is_ours: Callable[[Part], bool]) -> Part | None:
    """The only value in a cursor, if we can have put it there."""
    key = decode(cursor, kind)
    if key is None:
        return None
    part: Part = key[0]
    if not is_ours(part):
        raise InvalidInput(NO_CURSOR, "cursor")
    return part
