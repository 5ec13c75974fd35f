"""API tokens, without their secrets."""

from collections.abc import Collection
from dataclasses import fields
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewToken, TokenRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import tokens


class TokenStore:
    """API tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, new: NewToken) -> TokenRecord:
        """Store a token. Idempotent by id and digest.

        Raises:
            RecordConflict: If another token has this id.
        """
        values = {field.name: getattr(new, field.name) for field in fields(new)}
        async with self._database.write() as connection:
            inserted = upsert(connection, tokens).values(**values, created_at=now()).on_conflict_do_nothing()
            await connection.execute(inserted)
            token = await _get(connection, new.id)
        if token.digest != new.digest:
            raise RecordConflict(f"there is a token {new.id} already")
        return token

    async def get(self, id: str) -> TokenRecord:
        """Return one token, usable or not.

        Raises:
            RecordNotFound: If there is none.
        """
        async with self._database.read() as connection:
            return await _get(connection, id)

    async def find(self, ids: Collection[str]) -> dict[str, TokenRecord]:
        """Return tokens by id, usable or not; missing ones are left out."""
        statement = select_record(tokens, TokenRecord).where(tokens.c.id.in_(ids))
        return {each.id: each for each in await self._database.all(TokenRecord, statement)}

    async def revoke(self, id: str) -> TokenRecord:
        """Refuse a token from now on, for good. Its row stays: the audit log names it.

        Raises:
            RecordNotFound: If there is none.
        """
        statement = update(tokens).where(tokens.c.id == id, tokens.c.revoked_at.is_(None)).values(revoked_at=now())
        async with self._database.write() as connection:
            await connection.execute(statement)
            return await _get(connection, id)

    async def touch(self, id: str, at: datetime) -> None:
        """Record the use of a token."""
        earlier = or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at < at)
        async with self._database.write() as connection:
            await connection.execute(update(tokens).where(tokens.c.id == id, earlier).values(last_used_at=at))

    async def is_there_any(self) -> bool:
        """Return True if a token was ever created, usable or not."""
        async with self._database.read() as connection:
            return (await connection.execute(select(tokens.c.id).limit(1))).first() is not None

    async def usable(self, scope: str, at: datetime) -> TokenRecord | None:
        """Return any token with a scope that is usable at a time. Reads all tokens: not for requests."""
        statement = select_record(tokens, TokenRecord).where(tokens.c.revoked_at.is_(None))
        found = await self._database.all(TokenRecord, statement)
        return next((token for token in found if scope in token.scopes and token.is_usable(at)), None)

    # Last, because from here on `list` means this method.
    async def list(self, *, limit: int = 50, before: str | None = None) -> list[TokenRecord]:
        """Return tokens, newest first.

        Args:
            limit: Maximum number of tokens.
            before: Only those older than the token of this id.
        """
        statement = select_record(tokens, TokenRecord).order_by(tokens.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(tokens.c.id < before)
        return await self._database.all(TokenRecord, statement)


async def _get(connection: AsyncConnection, id: str) -> TokenRecord:
    row = (await connection.execute(select_record(tokens, TokenRecord).where(tokens.c.id == id))).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no token {id}")
    return TokenRecord(**row._asdict())
