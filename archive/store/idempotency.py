"""Answers to requests with an idempotency key, so that a repeated request has no second effect."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, update

from archive.records import IdempotencyRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import idempotency_replies as replies

KEPT = timedelta(hours=24)
"""Lifetime of a key. The Idempotency-Key draft leaves it to the server; other services use the same."""
LAPSE = timedelta(seconds=60)
"""Time after which an unanswered attempt counts as dead. Ours take milliseconds. A second attempt that begins too early
creates nothing twice, because both use the same id."""
NEVER = timedelta(days=36_525)
"""A hundred years, by which a released claim is dated back, so that the next attempt gets it at once."""


class IdempotencyStore:
    """Stored responses by caller and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, new: IdempotencyRecord) -> tuple[IdempotencyRecord, bool]:
        """Begin to answer a request, or return its stored answer.

        Also removes keys that are too old.

        Args:
            new: A record without a status.

        Returns:
            The stored record, and True if the caller has to answer now. If False and it has no status, another attempt
            is in progress. If its fingerprint differs, the key was used for another request.
        """
        dead = and_(
            _is(new.caller, new.key),
            replies.c.fingerprint == new.fingerprint,
            replies.c.status.is_(None),
            replies.c.claimed_at < new.claimed_at - LAPSE,
        )
        async with self._database.write() as connection:
            await connection.execute(delete(replies).where(replies.c.created_at < new.created_at - KEPT))
            inserted = upsert(connection, replies).values(vars(new)).on_conflict_do_nothing()
            mine = (await connection.execute(inserted.returning(replies.c.key))).first() is not None
            if not mine:
                taken = update(replies).where(dead).values(claimed_at=new.claimed_at)
                mine = (await connection.execute(taken)).rowcount == 1
            row = (
                await connection.execute(select_record(replies, IdempotencyRecord).where(_is(new.caller, new.key)))
            ).one()
        return IdempotencyRecord(**row._asdict()), mine

    async def settle(self, claimed: IdempotencyRecord, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Store an answer. The first one counts."""
        open_one = and_(_is(claimed.caller, claimed.key), replies.c.status.is_(None))
        async with self._database.write() as connection:
            await connection.execute(
                update(replies).where(open_one).values(status=status, headers=dict(headers), body=body)
            )

    async def put_back(self, claimed: IdempotencyRecord) -> None:
        """Release a claim and its resource at once, after this attempt was interrupted."""
        async with self._database.write() as connection:
            away = update(replies).where(_attempt(claimed)).values(claimed_at=claimed.claimed_at - NEVER)
            await connection.execute(away)

    async def forget(self, claimed: IdempotencyRecord) -> None:
        """Remove a claim without an effect: the request was refused."""
        async with self._database.write() as connection:
            await connection.execute(delete(replies).where(_attempt(claimed)))


def _is(caller: str, key: str) -> ColumnElement[bool]:
    return and_(replies.c.caller == caller, replies.c.key == key)


def _attempt(claimed: IdempotencyRecord) -> ColumnElement[bool]:
    """Match this attempt and no later one."""
    return and_(
        _is(claimed.caller, claimed.key), replies.c.status.is_(None), replies.c.claimed_at == claimed.claimed_at
    )
