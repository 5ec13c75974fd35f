"""Cursor paging: every list is `{"items": [...], "next": "..."}`, and `next` is the cursor of the next page.

A cursor names the last item seen, not a position, so insertions and deletions do not shift pages.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from archive.records import Listed, SortKey
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


def decode_sorted(cursor: str | None, sort: str, kinds: Sequence[type | tuple[type, ...]]) -> SortKey | None:
    """Return the sort key in a cursor of a list that can be sorted; None without a cursor.

    Args:
        cursor: Cursor from a client.
        sort: Order of the list.
        kinds: Types of the sort key's parts.

    Raises:
        InvalidInput: If the cursor is not one of ours, or belongs to another order.
    """
    key = decode(cursor, str, *kinds)
    if key is None:
        return None
    if key[0] != sort:
        raise InvalidInput(f"the cursor belongs to the list sorted by '{key[0]}'; keep `sort` on all pages", "cursor")
    return tuple(key[1:])


def listed(found: Listed[Item], sort: str, show: Callable[[Item], Shown]) -> Page[Shown]:
    """Make a page of a list that can be sorted."""
    following = None if found.after is None else encode((sort, *found.after))
    return Page(items=[show(item) for item in found.items], next=following)


def remaining(
    items: Iterable[Item], key: Callable[[Item], SortKey], after: Sequence[Any] | None, *, descending: bool = False
) -> list[Item]:
    """Sort all items of a list, and return those behind a sort key."""
    ordered = sorted(items, key=key, reverse=descending)
    if after is None:
        return ordered
    last = tuple(after)
    return [item for item in ordered if (key(item) < last if descending else key(item) > last)]


def whole(
    items: Iterable[Item],
    cursor: str | None,
    limit: int,
    name: Callable[[Item], str],
    show: Callable[[Item], Shown],
) -> Page[Shown]:
    """Make a page of a short list, which is read as a whole: its items by name.

    Raises:
        InvalidInput: If the cursor is not one of ours.
    """
    return page(
        remaining(items, lambda item: (name(item),), decode(cursor, str)), limit, lambda item: (name(item),), show
    )


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
