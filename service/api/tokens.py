"""API tokens: create, list, revoke."""

from fastapi import APIRouter, Response, status

from kernelreef.models import IssuedToken, Token
from service.api.access_schemas import TokenRequest
from service.api.dependencies import Caller, Id, NewId, Running, needs, whole_id
from service.api.paging import Cursor, Limit, Page, decode_id, page
from service.api.problems import PROBLEMS
from service.errors import Forbidden, InvalidInput
from service.security.authentication import issue, utc_now
from service.security.scopes import Scope, SearchGrant

router = APIRouter(prefix="/tokens", tags=["access"], responses=PROBLEMS, dependencies=[needs(Scope.ADMIN)])


@router.get("")
async def find(running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[Token]:
    """List tokens, newest first, without their secrets."""
    found = await running.store.tokens.list(limit=limit + 1, before=decode_id(cursor))
    return page(found, limit, lambda token: (token.id,), Token.model_validate)


@router.post("", status_code=status.HTTP_201_CREATED)
async def create(body: TokenRequest, running: Running, caller: Caller, id: NewId, response: Response) -> IssuedToken:
    """Create a token. Only this response contains its text, and its scopes are limited to the caller's."""
    beyond = sorted(set(body.scopes) - caller.scopes)
    if beyond:
        raise Forbidden(f"a token cannot give scopes that it lacks: {', '.join(beyond)}")
    if body.expires_at is not None and body.expires_at <= utc_now():
        raise InvalidInput("the expiry must be in the future", "expires_at")
    grant = None if body.search is None else SearchGrant(await whole_id(running, "search", body.search))
    token, text = await issue(
        running.store, body.name, body.scopes, expires_at=body.expires_at, created_by=caller.token, id=id, grant=grant
    )
    # Also keeps the text out of responses stored for idempotency keys.
    response.headers["Cache-Control"] = "no-store"
    return IssuedToken(**vars(Token.model_validate(token)), token=text)


@router.delete("/{id}")
async def revoke(id: Id, running: Running) -> Token:
    """Revoke a token and end its sessions. It stays in the list and in the audit log."""
    return Token.model_validate(await running.store.tokens.revoke(id))
