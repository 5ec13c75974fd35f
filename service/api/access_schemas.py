"""Documents of token requests and sessions, without the web framework."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kernelreef.models import Resource
from service.security.scopes import RESTRICTABLE, Scope

TokenName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]


class TokenRequest(BaseModel):
    """A request for a token: its name, its scopes and its expiry. With `search` it is of use for that search only."""

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
    search: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{6,36}$")] | None = None

    @model_validator(mode="after")
    def _restrictable(self) -> Self:
        beyond = sorted({scope.value for scope in self.scopes} - {scope.value for scope in RESTRICTABLE})
        if self.search is not None and beyond:
            raise ValueError(f"a token for one search cannot have {', '.join(beyond)}")
        return self


class LoginRequest(BaseModel):
    """A token that begins a session."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, json_schema_extra={"examples": [{"token": "reef_…"}]}
    )

    token: Annotated[str, StringConstraints(max_length=256)]


class OpenSession(Resource):
    """A new session. Requests that change something must send `csrf` with the cookie."""

    name: str
    scopes: tuple[Scope, ...]
    csrf: str
    expires_at: datetime
