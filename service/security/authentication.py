"""Authentication by tokens and sessions. Every request looks them up in the archive, so revoking acts at once."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from uuid6 import uuid7

from archive.errors import DatabaseUnavailable
from archive.records import NewToken, SessionRecord, TokenRecord
from archive.store import Store
from service.errors import Unauthenticated
from service.security import cookies
from service.security.credentials import digest_of, mint, read
from service.security.identity import Identity
from service.security.scopes import Scope, SearchGrant, grant_of, permitted
from service.single_flight import SingleFlight

USE_NOTED = timedelta(minutes=1)
"""Minimum time between two records of a token's use: people need to know whether it is in use, not how often."""
FIRST_TOKEN = "00000000-0000-7000-8000-000000000000"
"""Id of an archive's first token. It is fixed, so that concurrently starting services create one token only."""
NOT_USABLE = "this token is unknown, revoked or expired"
"""Message for every rejected token; the exact reason would only help an attacker."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class OpenedSession:
    """New session: its owner, and the secret for the cookie."""

    identity: Identity
    secret: str = field(repr=False)
    expires_at: datetime


class Authentication:
    """Authentication of callers, and their sessions."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._tokens = SingleFlight(store.tokens.find)
        self._first = SingleFlight[None, bool](self._look_for_any)
        self._is_needed = False

    async def is_needed(self) -> bool:
        """Return True if a token exists or ever existed; from the first one on every caller needs one."""
        self._is_needed = self._is_needed or bool(await self._first.find(None))
        return self._is_needed

    async def by_token(self, text: str) -> Identity:
        """Return the owner of a token.

        Raises:
            Unauthenticated: If the token is unknown, revoked or expired.
        """
        return identity_of(await self._usable(text))

    async def by_session(self, secret: str) -> Identity | None:
        """Return the owner of a session; None if there is none, or it or its token has ended."""
        at = self._clock()
        session = await self._store.sessions.find(digest_of(secret))
        if session is None or at >= session.expires_at or at >= session.used_at + cookies.IDLE:
            return None
        token = await self._tokens.find(session.token)
        if token is None or not token.is_usable(at):
            return None
        if at >= session.used_at + USE_NOTED:
            with suppress(DatabaseUnavailable):
                await self._store.sessions.touch(session.digest, at)
        await self._note_use(token, at)
        return identity_of(token)

    async def open_session(self, text: str, replacing: str | None = None) -> OpenedSession:
        """Open a session with a token. Its secret is always new, which prevents session fixation.

        Args:
            text: The token.
            replacing: Secret of the browser's present session, which ends.

        Raises:
            Unauthenticated: If the token is not usable.
        """
        token = await self._usable(text)
        at = self._clock()
        longest = at + cookies.LONGEST
        expires_at = min(longest, token.expires_at or longest)
        secret = cookies.new_secret()
        if replacing is not None:
            await self.close_session(replacing)
        await self._store.sessions.open(SessionRecord(digest_of(secret), token.id, at, at, expires_at))
        return OpenedSession(identity_of(token), secret, expires_at)

    async def close_session(self, secret: str) -> None:
        """End a session."""
        await self._store.sessions.close(digest_of(secret))

    async def _usable(self, text: str) -> TokenRecord:
        credential = read(text)
        if credential is None:
            raise Unauthenticated("this is not a token; a complete token starts with 'reef_'")
        token = await self._tokens.find(credential.id)
        at = self._clock()
        if token is None or not credential.matches(token.digest) or not token.is_usable(at):
            raise Unauthenticated(NOT_USABLE)
        await self._note_use(token, at)
        return token

    async def _look_for_any(self, keys: Collection[None]) -> dict[None, bool]:
        return dict.fromkeys(keys, await self._store.tokens.is_there_any())

    async def _note_use(self, token: TokenRecord, at: datetime) -> None:
        """Record the use of a token. A failure to record it does not refuse the request."""
        if token.last_used_at is None or at >= token.last_used_at + USE_NOTED:
            with suppress(DatabaseUnavailable):
                await self._store.tokens.touch(token.id, at)


def identity_of(token: TokenRecord) -> Identity:
    """Return the owner of a token."""
    return Identity(token.id, token.name, permitted(token.scopes), grant_of(token.scopes))


async def issue(
    store: Store,
    name: str,
    scopes: Collection[Scope],
    *,
    expires_at: datetime | None = None,
    created_by: str | None = None,
    id: str | None = None,
    grant: SearchGrant | None = None,
) -> tuple[TokenRecord, str]:
    """Create a token; with a `grant`, its scopes hold for that search only.

    Returns:
        The stored token, and its text, which cannot be recovered later.

    Raises:
        archive.errors.RecordConflict: If `id` is given and taken.
    """
    id = id or str(uuid7())
    text, digest = mint(id)
    written = tuple(sorted(grant.write(scope) if grant else scope.value for scope in scopes))
    new = NewToken(id, name, digest, written, created_by, expires_at)
    return await store.tokens.create(new), text
