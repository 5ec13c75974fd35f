"""Records of access: tokens, sessions, the audit log, and stored responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class NewToken:
    """A token to store. Its secret is stored nowhere: `digest` is enough to recognise it.

    Attributes:
        id: UUIDv7.
        name: Name for people.
        digest: SHA-256 of the secret, in hexadecimal.
        scopes: Names of the scopes that it grants.
        created_by: Id of the token that was used to make it; None for the machine's own user.
        expires_at: Time from which on it is refused, None for never.
    """

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_by: str | None
    expires_at: datetime | None


@dataclass(frozen=True)
class TokenRecord(NewToken):
    """A stored token. `last_used_at` may lag behind by a minute."""

    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None

    def is_usable(self, at: datetime) -> bool:
        """Return True if the token is neither revoked nor expired at a time."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True)
class SessionRecord:
    """A dashboard session, opened with a token and continued with a cookie.

    Attributes:
        digest: SHA-256 of the cookie's secret, in hexadecimal.
        token: Id of the token that opened it.
        created_at: Time of its opening.
        used_at: Time of the last use of the cookie; may lag behind by a minute.
        expires_at: Time from which on it is refused, used or not.
    """

    digest: str
    token: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class NewAuditRecord:
    """An action that was done or refused.

    Attributes:
        at: Time of the answer.
        token: Id of the caller's token; None for the machine's own user and for unknown callers.
        caller: Name of the caller, for people; empty if unknown.
        address: Address that the request came from.
        action: The requested action, such as `POST /api/v1/searches/{id}/stop`.
        target: Path of the request, as it was sent.
        status: HTTP status of the answer.
        detail: Reason of a refusal; else empty.
    """

    at: datetime
    token: str | None
    caller: str
    address: str
    action: str
    target: str
    status: int
    detail: str


@dataclass(frozen=True)
class AuditRecord(NewAuditRecord):
    """An entry of the audit log; `seq` grows with every one."""

    seq: int


@dataclass(frozen=True)
class IdempotencyRecord:
    """Response to a request with an idempotency key, or the note that it is in progress.

    Attributes:
        caller: Id of the caller's token, or a word for the machine's own user.
        key: The idempotency key.
        fingerprint: Digest of the first request with this key.
        resource: Id of the resource that the request creates, the same at every attempt.
        created_at: Time of the first request with this key.
        claimed_at: Start of the last attempt.
        status: HTTP status of the answer; None while there is none.
        headers: Headers of the answer that a repetition needs.
        body: Body of the answer.
    """

    caller: str
    key: str
    fingerprint: str
    resource: str
    created_at: datetime
    claimed_at: datetime
    status: int | None
    headers: Mapping[str, str]
    body: bytes
