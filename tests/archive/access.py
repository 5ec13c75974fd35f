"""What tests of access keep."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from uuid6 import uuid7

from archive.errors import RecordNotFound
from archive.records import IdempotencyRecord, NewAuditRecord, NewToken
from archive.store import Store

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def new_token(**changes: object) -> NewToken:
    values: dict[str, object] = {
        "id": str(uuid7()),
        "name": "laptop",
        "digest": "0" * 64,
        "scopes": ("read", "admin"),
        "created_by": None,
        "expires_at": None,
    }
    return NewToken(**values | changes)  # type: ignore[arg-type]


def new_entry(**changes: object) -> NewAuditRecord:
    values: dict[str, object] = {
        "at": NOON,
        "token": None,
        "caller": "local",
        "address": "127.0.0.1",
        "action": "POST /api/v1/searches",
        "target": "/api/v1/searches",
        "status": 202,
        "detail": "",
    }
    return NewAuditRecord(**values | changes)  # type: ignore[arg-type]


def attempt(at: datetime = NOON, **changes: object) -> IdempotencyRecord:
    values: dict[str, object] = {
        "caller": "local",
        "key": "k1",
        "fingerprint": "f1",
        "resource": str(uuid7()),
        "created_at": at,
        "claimed_at": at,
        "status": None,
        "headers": {},
        "body": b"",
    }
    return IdempotencyRecord(**values | changes)  # type: ignore[arg-type]


def later(**by: float) -> datetime:
    return NOON + timedelta(**by)


QUERIES: dict[str, Callable[[Store, str, str], Awaitable[object]]] = {
    "tokens.create": lambda store, search, candidate: store.tokens.create(new_token()),
    "tokens.get": lambda store, search, candidate: found_or_not(store.tokens.get("t")),
    "tokens.touch": lambda store, search, candidate: store.tokens.touch("t", NOON),
    "tokens.revoke": lambda store, search, candidate: found_or_not(store.tokens.revoke("t")),
    "tokens.list": lambda store, search, candidate: store.tokens.list(before="t"),
    "sessions.find": lambda store, search, candidate: store.sessions.find("d"),
    "sessions.touch": lambda store, search, candidate: store.sessions.touch("d", NOON),
    "audit.add": lambda store, search, candidate: store.audit.add(new_entry()),
    "audit.list": lambda store, search, candidate: store.audit.list(before=9),
    "audit.list of a token": lambda store, search, candidate: store.audit.list(token="t", before=9),
    "replies.claim": lambda store, search, candidate: store.replies.claim(attempt()),
    "replies.settle": lambda store, search, candidate: store.replies.settle(attempt(), 202, {}, b""),
    "replies.put_back": lambda store, search, candidate: store.replies.put_back(attempt()),
}
"""Queries of access, for the test that none of the archive's scans a table."""


async def found_or_not(asked: Awaitable[object]) -> None:
    with suppress(RecordNotFound):
        await asked
