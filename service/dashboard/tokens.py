"""Pages of API tokens, the audit log and the login."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import ValidationError

from archive.records import AuditRecord, TokenRecord
from kernelreef.validation import faults
from service.api.access_schemas import TokenRequest
from service.api.dependencies import Caller, Id, Running, needs
from service.api.paging import ID, MOST_NUMBER
from service.api.sessions import page_after
from service.coordinator import Coordinator
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, Sent, SubmittedForm, pages, see_other
from service.errors import Forbidden, InvalidInput
from service.security.authentication import issue, utc_now
from service.security.scopes import Scope

router = pages()

SHOWN = 50
"""Number of tokens, or of audit entries, on one page."""
ENTRIES = 25
"""Number of audit entries below the tokens."""
DAYS = (("1", "a day"), ("30", "30 days"), ("365", "a year"), ("", "no expiry"))
"""Lifetimes of a new token: days, and the text of the choice."""


@dataclass(frozen=True)
class TokensPage(HtmlPage):
    """All tokens, newest first. `issued` is the text of a token just created, shown only once."""

    template = "tokens.html"
    section = "/tokens"
    heading = "Tokens"

    tokens: tuple[TokenRecord, ...]
    entries: tuple[AuditRecord, ...]
    older: str | None
    now: datetime
    scopes: tuple[str, ...]
    issued: str = ""
    issued_for: tuple[str, ...] = ()
    address: str = ""
    name: str = ""
    chosen: tuple[str, ...] = ("read",)
    wrong: Mapping[str, str] = field(default_factory=dict)
    days = DAYS


@dataclass(frozen=True)
class AuditPage(HtmlPage):
    """The audit log, newest first."""

    template = "audit.html"
    section = "/tokens"
    heading = "Audit log"

    entries: tuple[AuditRecord, ...]
    older: int | None
    token: str | None


@dataclass(frozen=True)
class LoginPage(HtmlPage):
    """The login form; `following` is the page to continue with."""

    template = "login.html"
    heading = "Log in"

    following: str
    refused: bool


@router.get("/login")
async def login(frame: Framed, next: Annotated[str, Query(max_length=2000)] = "/", refused: str = "") -> Response:
    """Show the login form."""
    return respond(LoginPage(page_after(next), bool(refused)), frame)


@router.get("/tokens", dependencies=[needs(Scope.ADMIN)])
async def show(
    running: Running,
    caller: Caller,
    frame: Framed,
    before: Annotated[str | None, Query(pattern=f"^{ID.pattern}$")] = None,
) -> Response:
    """List tokens and the latest audit entries."""
    return respond(await _page(running, caller.scopes, before), frame)


@router.post("/tokens", dependencies=[needs(Scope.ADMIN)])
async def create(running: Running, caller: Caller, frame: Framed, sent: Sent, request: Request) -> Response:
    """Create a token and show its text, which no other response contains."""
    try:
        asked = _asked(sent)
        if beyond := sorted(set(asked.scopes) - caller.scopes):
            raise Forbidden(f"you cannot give scopes that your own token lacks: {', '.join(beyond)}")
    except ValidationError as error:
        wrong = {str(found.steps[0]): found.problem for found in reversed(faults(error.errors(), TokenRequest))}
        page = await _page(running, caller.scopes, None)
        page = replace(page, name=sent.text("name"), chosen=sent.several("scopes"), wrong=wrong)
        return respond(page, frame, 422)
    _, text = await issue(running.store, asked.name, asked.scopes, expires_at=asked.expires_at, created_by=caller.token)
    scopes = tuple(sorted(scope.value for scope in asked.scopes))
    address = str(request.base_url).rstrip("/")
    page = replace(await _page(running, caller.scopes, None), issued=text, issued_for=scopes, address=address)
    response = respond(page, frame, 201)
    response.headers["Cache-Control"] = "no-store"
    return response


@router.post("/tokens/{id}/revoke", dependencies=[needs(Scope.ADMIN)])
async def revoke(id: Id, running: Running) -> Response:
    """Revoke a token: it is refused from now on."""
    await running.store.tokens.revoke(id)
    return see_other("/tokens")


@router.get("/audit", dependencies=[needs(Scope.ADMIN)])
async def audit(
    running: Running,
    frame: Framed,
    before: Annotated[int | None, Query(ge=0, lt=MOST_NUMBER)] = None,
    token: Annotated[str | None, Query(pattern=f"^{ID.pattern}$")] = None,
) -> Response:
    """Show the audit log: changes and refused requests."""
    found = await running.store.audit.list(limit=SHOWN + 1, before=before, token=token)
    older = found[SHOWN - 1].seq if len(found) > SHOWN else None
    return respond(AuditPage(tuple(found[:SHOWN]), older, token), frame)


def _asked(sent: SubmittedForm) -> TokenRequest:
    days = sent.text("days")
    if days not in dict(DAYS):
        raise InvalidInput(f"choose one of: {', '.join(name or 'nothing' for name, _ in DAYS)}", "days")
    expires_at = utc_now() + timedelta(days=int(days)) if days else None
    return TokenRequest.model_validate(
        {"name": sent.text("name"), "scopes": sent.several("scopes"), "expires_at": expires_at}
    )


async def _page(running: Coordinator, scopes: frozenset[Scope], before: str | None) -> TokensPage:
    found = await running.store.tokens.list(limit=SHOWN + 1, before=before)
    return TokensPage(
        tokens=tuple(found[:SHOWN]),
        entries=tuple(await running.store.audit.list(limit=ENTRIES)),
        older=found[SHOWN - 1].id if len(found) > SHOWN else None,
        now=utc_now(),
        scopes=tuple(scope.value for scope in Scope if scope in scopes),
    )
