"""Cursor paging: every list is `{"items": [...], "next": "..."}`, and `next` is the cursor of the next page.

A cursor names the last item seen, not a position, so insertions and deletions do not shift pages.
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
"""Pattern of an id: a UUID in lower case."""
MOST_NUMBER = 2**63
"""Upper bound of numbers in databases."""
NO_CURSOR = "the cursor is invalid; use `next` of an earlier response unchanged"

Limit = Annotated[int, Query(ge=1, le=200, description="Maximum number of items.")]
Cursor = Annotated[str | None, Query(max_length=256, description="`next` of the previous page.")]


class Page(BaseModel, Generic[Shown]):
    """One page of a list. `next` is None at its end."""

    items: list[Shown]
    next: str | None


def encode(key: Sequence[int | float | str]) -> str:
    """Make a cursor of a key."""
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")


def decode(cursor: str | None, *kinds: type | tuple[type, ...]) -> list[Any] | None:
    """Return the key in a cursor; None without a cursor.

    Args:
        cursor: Cursor from a client.
        kinds: Types of the key's parts, in order.

    Raises:
        InvalidInput: If the cursor is not one of ours.
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
    """Return True if a database can compare with a value; a forged cursor may hold any value."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    if isinstance(value, str):
        return UNKEPT.search(value) is None
    return not isinstance(value, int) or -MOST_NUMBER <= value < MOST_NUMBER


def page(
    items: Sequence[Item], limit: int, key: Callable[[Item], Sequence[int | float | str]], show: Callable[[Item], Shown]
) -> Page[Shown]:
    """Make a page of the first `limit` items. Pass one item more, so that `next` shows if there are more."""
    shown = items[:limit]
    more = len(items) > limit
    return Page(items=[show(item) for item in shown], next=encode(key(shown[-1])) if more else None)


def decode_number(cursor: str | None) -> int | None:
    """Return the number in a cursor; None without a cursor.

    Raises:
        InvalidInput: If the cursor is not one of ours.
    """
    return _decode_one(cursor, int, lambda number: number >= 0)


def decode_id(cursor: str | None) -> str | None:
    """Return the id in a cursor; None without a cursor.

    Raises:
        InvalidInput: If the cursor is not one of ours.
    """
    return _decode_one(cursor, str, lambda text: ID.fullmatch(text) is not None)


def _decode_one(cursor: str | None, kind: type[Part], is_ours: Callable[[Part], bool]) -> Part | None:
    """Return the only value in a cursor, after checking that it can be ours."""
    key = decode(cursor, kind)
    if key is None:
        return None
    part: Part = key[0]
    if not is_ours(part):
        raise InvalidInput(NO_CURSOR, "cursor")
    return part
