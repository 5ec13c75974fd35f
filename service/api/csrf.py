"""Protection against cross-site request forgery.

Browsers send our cookie only with our own pages' requests (SameSite=Strict) and state the origin. Other sites cannot
send the second secret, which only our pages know. A request with a token is exempt, because no browser sends one by
itself. Without a login there is no cookie, and only the origin is checked.
"""

import hmac
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.problems import answer_service_error
from service.errors import Forbidden

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1)."""
CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf"
"""Places of the second secret: a header of scripts, a field of forms."""
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1000
"""Maximum number of fields in a form; ours have a few dozen."""


class CsrfGuard:
    """Middleware that passes requests that change nothing, carry a token, or come from our own pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse requests from other sites. The body must have been read (`limits.BodyLimit`)."""
        if scope["type"] == "http" and scope["method"] not in SAFE:
            request = Request(scope)
            try:
                _require_meant(request)
            except Forbidden as refusal:
                await answer_service_error(request, refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _require_meant(request: Request) -> None:
    state = request.scope["state"]
    if state.get("by_token"):
        return
    if _is_from_elsewhere(request):
        raise Forbidden("this request came from another site")
    expected = state.get("csrf")
    if expected and not hmac.compare_digest(_sent_token(request).encode(), expected.encode()):
        raise Forbidden(f"a request with a cookie needs the session's CSRF token, in {CSRF_HEADER} or the form")


def _is_from_elsewhere(request: Request) -> bool:
    """Return True if a browser states another origin. Old browsers send only `Origin`; programs send neither header."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


def _sent_token(request: Request) -> str:
    if CSRF_HEADER in request.headers:
        return request.headers[CSRF_HEADER]
    if not request.headers.get("content-type", "").startswith(FORM):
        return ""
    try:
        body: bytes = request.scope["state"]["body"]
        fields = parse_qs(body.decode(), max_num_fields=MOST_FIELDS)
    except ValueError:
        return ""
    return fields.get(CSRF_FIELD, [""])[0]
