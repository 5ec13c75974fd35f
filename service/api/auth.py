"""The gate in front of every route: whether a request names us, who is calling, and whether he called too often.

It lets nobody pass who is not known, whatever a route says of itself, but for the few addresses in `OPEN`. What a
caller may do is then said by each route (`wiring.needs`).
"""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from archive.errors import ArchiveError
from service.api.csrf import SAFE
from service.api.problems import answer_archive_error, answer_service_error
from service.errors import RateLimited, ServiceError, Unauthenticated
from service.security import cookies
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.authentication import Authentication
from service.security.identity import LOCAL, Identity
from service.security.rate_limits import RateLimiter, network_of
from service.security.scopes import Scope as Allowed

LOGIN = "/login"
OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", LOGIN})
"""Addresses that strangers may see: probes, what the API looks like, and where to log in."""
OPEN_BELOW = "/static/"
"""Style sheets and scripts of the pages; they are the same for everybody, and the login page needs them."""
METRICS = "/metrics"
SCRAPER = Identity(token=None, name="scraper", scopes=frozenset({Allowed.READ}))
"""Who reads the metrics on the machine itself; scrapers of such machines have no tokens."""

BURST_S = 10
"""Seconds' worth of requests that a caller may send at once: a page opens a dozen, a script begins with a hundred."""
GUESSES_PER_S, GUESSES = 1 / 6, 10
"""Logins, and wrong tokens that are written down, for each address. Nobody types more; a flood fills no audit log."""


class AuthMiddleware:
    """Finds out who is calling and stops whoever may not come in."""

    def __init__(self, app: ASGIApp, doors: AccessPolicy) -> None:
        self._app = app
        self._doors = doors
        self._requests = RateLimiter(doors.requests_per_s, doors.requests_per_s * BURST_S)
        self._guesses = RateLimiter(GUESSES_PER_S, GUESSES)
        self._logins = RateLimiter(GUESSES_PER_S, GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of callers that are known; `scope["state"]` says who it is."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = await self._stop(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    async def _stop(self, request: Request) -> Response | None:
        """What to answer whoever may not come in; None for the others."""
        try:
            await self._admit(request)
        except Unauthenticated as refusal:
            return self._ask_who(request, refusal)
        except ServiceError as refusal:
            return answer_service_error(request, refusal)
        except ArchiveError as error:
            return answer_archive_error(request, error)
        return None

    async def _admit(self, request: Request) -> None:
        if not self._doors.hosts.answers(request.headers.get("host", "")):
            raise WrongHost("this service does not answer to that name; see REEF_ALLOWED_HOSTS")
        path = request.scope["path"]
        if path in OPEN or path.startswith(OPEN_BELOW):
            self._limit(address_of(request))
            if path == LOGIN and request.method == "POST":
                _limit_by(self._logins, address_of(request), "too many logins")
            return
        caller = await self._caller(request)
        request.state.caller = caller
        if caller.token is not None:
            self._limit(caller.token)

    async def _caller(self, request: Request) -> Identity:
        """Who is calling.

        Raises:
            Unauthenticated: If nobody knows.
        """
        stated = request.headers.get("authorization")
        if stated is not None:
            return await self._by_token(request, stated)
        secret = cookies.secret_in(request.headers.get("cookie", ""), secure=request.url.scheme == "https")
        if secret is not None and (found := await _authentication(request).by_session(secret)):
            request.state.csrf = cookies.csrf_token(secret)
            return found
        if self._doors.login is LoginPolicy.NEVER:
            return LOCAL
        if self._doors.login is LoginPolicy.ONCE_THERE_ARE_TOKENS:
            if request.scope["path"] == METRICS:
                return SCRAPER
            if not await _authentication(request).is_needed():
                return LOCAL
        self._limit(address_of(request))
        raise Unauthenticated("say who you are: Authorization: Bearer with a token, or log in")

    async def _by_token(self, request: Request, stated: str) -> Identity:
        kind, _, text = stated.partition(" ")
        if kind.lower() != "bearer":
            raise Unauthenticated("only Bearer is understood in Authorization, with a token behind it")
        try:
            found = await _authentication(request).by_token(text.strip())
        except Unauthenticated:
            self._limit(address_of(request))
            raise
        request.state.by_token = True
        return found

    def _limit(self, caller: str) -> None:
        if self._doors.requests_per_s:
            _limit_by(self._requests, caller, f"more than {self._doors.requests_per_s} requests a second")

    def _ask_who(self, request: Request, refusal: Unauthenticated) -> Response:
        """Send a person to the login, and tell a program what to do."""
        if self._guesses.take(address_of(request)):
            request.state.unrecorded = True
        if request.scope["path"].startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            return answer_service_error(request, refusal)
        if request.method not in SAFE:
            return RedirectResponse(LOGIN, 303)
        asked = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{LOGIN}?next={quote(asked, safe='')}", 303)


class WrongHost(ServiceError):
    """The request names a host that is not this service."""

    status = 421
    title = "Wrong host"


def _limit_by(rates: RateLimiter, caller: str, what: str) -> None:
    if wait_s := rates.take(caller):
        raise RateLimited(f"{what}; try again in {wait_s} s", wait_s)


def address_of(request: Request) -> str:
    """The address, or network, that a request came from."""
    return network_of(request.client.host) if request.client else ""


def _authentication(request: Request) -> Authentication:
    authentication: Authentication = request.app.state.coordinator.authentication
    return authentication
