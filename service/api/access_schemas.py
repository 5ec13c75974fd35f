"""Documents of tokens, sessions and the audit log. Like `schemas`, they need no web framework."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from service.api.schemas import Resource
from service.security.scopes import Scope

TokenName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]


class TokenRequest(BaseModel):
    """A token to make: what it is called, what it allows, and until when."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [{"name": "ci", "scopes": ["read", "submit"], "expires_at": "2027-01-01T00:00:00Z"}]
        },
    )

    name: TokenName
    scopes: Annotated[Sequence[Scope], Field(min_length=1, max_length=len(Scope))]
    expires_at: AwareDatetime | None = None


class Token(Resource):
    """A token without its secret. `created_by` is the token it was made with, null for somebody on the machine."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class IssuedToken(Token):
    """A token with its text, which is shown this once and can never be found out again."""

    token: str


class LoginRequest(BaseModel):
    """A token to begin a session with."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, json_schema_extra={"examples": [{"token": "reef_…"}]}
    )

    token: Annotated[str, StringConstraints(max_length=256)]


class OpenSession(Resource):
    """A session that has begun. Requests that change something carry `csrf` besides the cookie."""

    name: str
    scopes: tuple[Scope, ...]
    csrf: str
    expires_at: datetime


class AuditEntry(Resource):
    """Something that was done or refused; `detail` says why it was refused."""

    seq: int
    at: datetime
    token: str | None
    caller: str
    address: str
    action: str
    target: str
    status: int
    detail: str
