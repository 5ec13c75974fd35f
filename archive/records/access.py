"""Records of who may come in, who is there, what was done, and what was answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class NewToken:
    """A token to keep. Its secret is not here and nowhere else: `digest` is enough to know it again.

    Attributes:
        id: UUIDv7.
        name: What people call it.
        digest: SHA-256 of the secret, in hexadecimal.
        scopes: What it allows, by name.
        created_by: Id of the token that was used to make it, None for somebody on the machine itself.
        expires_at: From when on it is refused, None for never.
    """

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_by: str | None
    expires_at: datetime | None


@dataclass(frozen=True)
class TokenRecord(NewToken):
    """A token that is kept. `last_used_at` may lag behind by a minute."""

    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None

    def is_usable(self, at: datetime) -> bool:
        """Return True if the token is neither revoked nor expired at a time."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True)
class SessionRecord:
    """Somebody who showed a token once and has a cookie since.

    Attributes:
        digest: SHA-256 of the cookie's secret, in hexadecimal.
        token: Id of the token that was shown.
        created_at: When.
        used_at: When the cookie was last seen; may lag behind by a minute.
        expires_at: From when on it is refused, used or not.
    """

    digest: str
    token: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class NewAuditRecord:
    """Something that was done or refused.

    Attributes:
        at: When it was answered.
        token: Id of the caller's token, None for the machine's own user and for strangers.
        caller: The caller's name, for people; empty if nobody knew who it was.
        address: Where the request came from.
        action: What was asked for, such as `POST /api/v1/searches/{id}/stop`.
        target: On what: the path as it was sent.
        status: HTTP status of the answer.
        detail: Why it was refused; empty if it was not.
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
        caller: Who asked: the id of a token, or a word for the machine's own user.
        key: The key that was sent.
        fingerprint: Digest of the request it was first sent with.
        resource: Id for what the request makes, the same at every attempt.
        created_at: When the key was first seen.
        claimed_at: When the last attempt began.
        status: HTTP status of the answer, None while there is none.
        headers: The headers that matter.
        body: The answer's body.
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
