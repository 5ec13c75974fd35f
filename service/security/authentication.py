"""Who is calling: tokens and sessions, looked up in the archive at every request, so that revoking acts at once."""

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
from service.security.scopes import Scope
from service.single_flight import SingleFlight

USE_NOTED = timedelta(minutes=1)
"""How often a use is written down: people want to know whether a token is in use, not how often."""
FIRST_TOKEN = "00000000-0000-7000-8000-000000000000"
"""Id of an archive's first token. Being fixed, it is made once, however many services start at once."""
NOT_USABLE = "this token is not known, was revoked or has expired"
"""What everybody is told whose token is not taken: which of the three it is would help only those who guess."""


def utc_now() -> datetime:
    """The time, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class OpenedSession:
    """A session that was just begun: whose it is, and the secret that goes into the cookie."""

    identity: Identity
    secret: str = field(repr=False)
    expires_at: datetime


class Authentication:
    """Tells who is calling, and begins and ends sessions."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._tokens = SingleFlight(store.tokens.find)
        self._first = SingleFlight[None, bool](self._look_for_any)
        self._is_needed = False

    async def is_needed(self) -> bool:
        """Whether there is, or ever was, a token: from the first one on everybody needs one."""
        self._is_needed = self._is_needed or bool(await self._first.find(None))
        return self._is_needed

    async def by_token(self, text: str) -> Identity:
        """Whose token this is.

        Raises:
            Unauthenticated: If it is not one of ours, was revoked or has expired.
        """
        return identity_of(await self._usable(text))

    async def by_session(self, secret: str) -> Identity | None:
        """Whose session this is; None if there is none, or it or its token has come to an end."""
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
        """Begin a session with a token. It always has a new secret, whatever cookie the browser came with.

        Args:
            text: The token.
            replacing: Secret of the session that the browser has now, which ends.

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
            raise Unauthenticated("this is no token of this service; one begins with 'reef_' and is sent whole")
        token = await self._tokens.find(credential.id)
        at = self._clock()
        if token is None or not credential.matches(token.digest) or not token.is_usable(at):
            raise Unauthenticated(NOT_USABLE)
        await self._note_use(token, at)
        return token

    async def _look_for_any(self, keys: Collection[None]) -> dict[None, bool]:
        return dict.fromkeys(keys, await self._store.tokens.is_there_any())

    async def _note_use(self, token: TokenRecord, at: datetime) -> None:
        """Write down that a token is in use. It is no reason to refuse a request that this cannot be done now."""
        if token.last_used_at is None or at >= token.last_used_at + USE_NOTED:
            with suppress(DatabaseUnavailable):
                await self._store.tokens.touch(token.id, at)


def identity_of(token: TokenRecord) -> Identity:
    """A token's owner; a scope that this release does not know allows nothing."""
    return Identity(token.id, token.name, frozenset(scope for scope in Scope if scope.value in token.scopes))


async def issue(
    store: Store,
    name: str,
    scopes: Collection[Scope],
    *,
    expires_at: datetime | None = None,
    created_by: str | None = None,
    id: str | None = None,
) -> tuple[TokenRecord, str]:
    """Make a token.

    Returns:
        The token as it is kept, and its text, which nobody can find out again.

    Raises:
        Conflict: If `id` is given and taken (`archive.errors`).
    """
    id = id or str(uuid7())
    text, digest = mint(id)
    new = NewToken(id, name, digest, tuple(sorted(scope.value for scope in scopes)), created_by, expires_at)
    return await store.tokens.create(new), text
