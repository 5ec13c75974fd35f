"""Answers to requests with an idempotency key, so that a request that is sent again is not done again."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, update

from archive.records import IdempotencyRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import idempotency_replies as replies

KEPT = timedelta(hours=24)
"""Lifetime of a key. The Idempotency-Key draft leaves it to the server; this is what other services take."""
LAPSE = timedelta(seconds=60)
"""After which an attempt that was not answered counts as dead. Ours take milliseconds; another one that is begun too
early makes nothing twice, for both make it under the same id."""
NEVER = timedelta(days=36_525)
"""A hundred years: what a claim is put back by so that the next attempt gets it at once."""


class IdempotencyStore:
    """Stored responses by caller and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, new: IdempotencyRecord) -> tuple[IdempotencyRecord, bool]:
        """Begin to answer a request, or find what became of it.

        Forgets keys that are too old on the way.

        Args:
            new: A reply without a status.

        Returns:
            The reply as it is kept, and whether the caller shall answer now. If not, and it has no status, somebody
            else is at it; if its fingerprint is another one, the key was used for something else.
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
        """Keep an answer. The first one counts."""
        open_one = and_(_is(claimed.caller, claimed.key), replies.c.status.is_(None))
        async with self._database.write() as connection:
            await connection.execute(
                update(replies).where(open_one).values(status=status, headers=dict(headers), body=body)
            )

    async def put_back(self, claimed: IdempotencyRecord) -> None:
        """Release a claim with its resource at once, as this attempt broke off."""
        async with self._database.write() as connection:
            away = update(replies).where(_attempt(claimed)).values(claimed_at=claimed.claimed_at - NEVER)
            await connection.execute(away)

    async def forget(self, claimed: IdempotencyRecord) -> None:
        """Drop a claim of which nothing came: the request was refused."""
        async with self._database.write() as connection:
            await connection.execute(delete(replies).where(_attempt(claimed)))


def _is(caller: str, key: str) -> ColumnElement[bool]:
    return and_(replies.c.caller == caller, replies.c.key == key)


def _attempt(claimed: IdempotencyRecord) -> ColumnElement[bool]:
    """This attempt and no later one."""
    return and_(
        _is(claimed.caller, claimed.key), replies.c.status.is_(None), replies.c.claimed_at == claimed.claimed_at
    )
