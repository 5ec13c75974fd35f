"""Authentication in front of all routes: check the host name, identify the caller, limit the rate.

Only the addresses in `OPEN` are reachable without authentication, whatever a route states. Each route then requires a
scope (`dependencies.needs`).
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
"""Public addresses: probes, the OpenAPI document and the login."""
OPEN_BELOW = "/static/"
"""Public folder of style sheets and scripts; the login page needs them."""
METRICS = "/metrics"
SCRAPER = Identity(token=None, name="scraper", scopes=frozenset({Allowed.READ}))
"""Caller that reads metrics on the machine itself without a token."""

BURST_S = 10
"""Burst size in seconds of the rate limit: a page sends a dozen requests at once, a script starts with a hundred."""
GUESSES_PER_S, GUESSES = 1 / 6, 10
"""Rate and burst, per address, of logins and of audited wrong tokens: more than a person types, too few to flood."""


class AuthMiddleware:
    """Middleware that identifies the caller and refuses unknown ones."""

    def __init__(self, app: ASGIApp, doors: AccessPolicy) -> None:
        self._app = app
        self._doors = doors
        self._requests = RateLimiter(doors.requests_per_s, doors.requests_per_s * BURST_S)
        self._guesses = RateLimiter(GUESSES_PER_S, GUESSES)
        self._logins = RateLimiter(GUESSES_PER_S, GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of known callers; `scope["state"]` holds the caller."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = await self._stop(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    async def _stop(self, request: Request) -> Response | None:
        """Return the response to a refused request; None if the request may pass."""
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
            raise WrongHost("this service does not accept that host name; see REEF_ALLOWED_HOSTS")
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
        """Identify the caller.

        Raises:
            Unauthenticated: If the caller is unknown.
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
        raise Unauthenticated("authentication is required: send 'Authorization: Bearer TOKEN', or log in")

    async def _by_token(self, request: Request, stated: str) -> Identity:
        kind, _, text = stated.partition(" ")
        if kind.lower() != "bearer":
            raise Unauthenticated("the Authorization header must be 'Bearer TOKEN'")
        try:
            found = await _authentication(request).by_token(text.strip())
        except Unauthenticated:
            self._limit(address_of(request))
            raise
        request.state.by_token = True
        return found

    def _limit(self, caller: str) -> None:
        if self._doors.requests_per_s:
            _limit_by(self._requests, caller, f"more than {self._doors.requests_per_s} requests per second")

    def _ask_who(self, request: Request, refusal: Unauthenticated) -> Response:
        """Redirect a person to the login; answer a program with 401."""
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
    """Return the address, or network, of a request's sender."""
    return network_of(request.client.host) if request.client else ""


def _authentication(request: Request) -> Authentication:
    authentication: Authentication = request.app.state.coordinator.authentication
    return authentication
