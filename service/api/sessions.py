"""Sessions of the pages: log in with a token, get a cookie, log out.

Both routes accept JSON from scripts and forms from pages without scripts. The response to a form is a redirect to the
next page.
"""

from typing import Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Request, Response, status
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import ValidationError

from kernelreef.validation import invalid
from service.api.access_schemas import LoginRequest, OpenSession
from service.api.auth import LOGIN
from service.api.csrf import FORM, MOST_FIELDS
from service.api.dependencies import Running
from service.api.problems import PROBLEMS
from service.errors import InvalidInput, Unauthenticated
from service.security import cookies
from service.security.authentication import Authentication, OpenedSession

router = APIRouter(tags=["access"], responses=PROBLEMS)

LOGIN_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": LoginRequest.model_json_schema()}}}
}
"""OpenAPI description of the body, which the route reads itself: JSON of programs; forms are for our pages only."""


def is_secure(request: Request) -> bool:
    """Return True if the request came over TLS, to us or to a trusted proxy."""
    return request.url.scheme == "https"


def cookie_of(request: Request) -> str | None:
    """Return the secret in the session's cookie; None without one."""
    return cookies.secret_in(request.headers.get("cookie", ""), secure=is_secure(request))


def page_after(asked: str) -> str:
    r"""Return the requested page if it is ours, else the first page.

    Browsers treat `//name` and `/\name` as another site.
    """
    ours = asked.startswith("/") and not asked.startswith(("//", "/\\")) and asked.isprintable()
    return asked if ours else "/"


@router.post(LOGIN, openapi_extra=LOGIN_BODY, response_model=OpenSession)
async def log_in(request: Request, running: Running) -> Response:
    """Begin a session. The cookie gets a new secret, even if the browser had one."""
    body = await request.body()
    authentication = Authentication(running.store)
    if not request.headers.get("content-type", "").startswith(FORM):
        opened = await authentication.open_session(_token_in(body), cookie_of(request))
        return _begin(request, opened, JSONResponse(_document(opened).model_dump(mode="json")))
    fields = _fields(body)
    following = page_after(fields.get("next", "/"))
    try:
        opened = await authentication.open_session(fields.get("token", "").strip(), cookie_of(request))
    except Unauthenticated as refusal:
        request.state.refusal = refusal.detail
        return RedirectResponse(f"{LOGIN}?{urlencode({'refused': 1, 'next': following})}", status.HTTP_303_SEE_OTHER)
    return _begin(request, opened, RedirectResponse(following, status.HTTP_303_SEE_OTHER))


@router.post("/logout", status_code=status.HTTP_204_NO_CONTENT)
async def log_out(request: Request, running: Running) -> Response:
    """End the session of the cookie; a form is redirected to the login."""
    if secret := cookie_of(request):
        await Authentication(running.store).close_session(secret)
    form = request.headers.get("content-type", "").startswith(FORM)
    response = RedirectResponse(LOGIN, status.HTTP_303_SEE_OTHER) if form else Response(status_code=204)
    response.headers["Set-Cookie"] = cookies.clear_cookie(secure=is_secure(request))
    return response


def _token_in(body: bytes) -> str:
    try:
        return LoginRequest.model_validate_json(body).token
    except ValidationError as error:
        problem = invalid(error, LoginRequest, secret=True)
        raise InvalidInput(
            f'send {{"token": "reef_…"}}: {problem.field or "the body"} {problem.detail}', "token"
        ) from None


def _fields(body: bytes) -> dict[str, str]:
    try:
        return {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=MOST_FIELDS).items()}
    except ValueError as error:
        raise InvalidInput("the request is not a form", "token") from error


def _document(opened: OpenedSession) -> OpenSession:
    return OpenSession(
        name=opened.identity.name,
        scopes=tuple(sorted(opened.identity.scopes)),
        csrf=cookies.csrf_token(opened.secret),
        expires_at=opened.expires_at,
    )


def _begin(request: Request, opened: OpenedSession, response: Response) -> Response:
    request.state.caller = opened.identity
    response.headers["Set-Cookie"] = cookies.set_cookie(opened.secret, opened.expires_at, secure=is_secure(request))
    response.headers["Cache-Control"] = "no-store"
    return response
