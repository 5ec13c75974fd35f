"""Stops requests that some other site made a browser send.

Browsers send our cookie only with requests of our own pages (SameSite=Strict), say where a request comes from, and
cannot be made to send the second secret, which only our pages know. A program that shows a token is not asked: no
browser does so by itself. Where nobody has to log in there is no cookie, and the request's origin alone is looked at.
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
"""Where the second secret is looked for: a header of a script, a field of a form."""
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1000
"""Fields of a form; ours have a few dozen."""


class CsrfGuard:
    """Passes on requests that change nothing, come from a program, or come from our own pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what came from another site. The body must have been read (`limits.Bodies`)."""
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
        raise Forbidden(f"a request with a cookie needs the session's second secret, in {CSRF_HEADER} or the form")


def _is_from_elsewhere(request: Request) -> bool:
    """Whether a browser says so. Old ones say `Origin` alone; programs say neither."""
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
