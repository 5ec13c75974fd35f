"""Shared parts of page routes: the frame of a page, submitted forms, and error pages."""

import gzip
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isawaitable
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from archive import errors as archive_errors
from service.dashboard.rendering import HtmlPage, PageFrame, respond
from service.errors import InvalidInput, ServiceError
from service.security.identity import Identity
from service.security.scopes import Scope
from workers.queue import QueueUnavailable

MOST_FIELDS = 500
"""Maximum number of fields in a form; ours have a few dozen."""
LEAST_PACKED_BYTES, PACKING_LEVEL = 1024, 5
"""Minimum size of a page to compress, and the gzip level: pages shrink sixfold in a millisecond or two.

The BREACH attack reads secrets from the compressed length, but needs another site's requests with our cookie. Browsers
do not send the cookie with them (SameSite=Strict)."""
LINKS = (
    ("/", "Searches", Scope.READ),
    ("/compare", "Compare", Scope.READ),
    ("/operators", "Operators", Scope.READ),
    ("/workers", "Workers", Scope.READ),
    ("/prompts", "Prompts", Scope.READ),
    ("/tokens", "Tokens", Scope.ADMIN),
)
"""Pages in the navigation, each with the scope that it requires."""


async def frame_of(request: Request) -> PageFrame:
    """Make the frame of the requested page; without a login it is the frame of the login page."""
    state = request.scope.get("state", {})
    caller: Identity | None = state.get("caller")
    scopes = caller.scopes if caller else frozenset()
    return PageFrame(
        caller=caller.name if caller and caller.token else "",
        scopes=frozenset(scope.value for scope in scopes),
        csrf=state.get("csrf", ""),
        links=tuple((address, name) for address, name, scope in LINKS if scope in scopes),
    )


Framed = Annotated[PageFrame, Depends(frame_of)]


@dataclass(frozen=True)
class SubmittedForm:
    """A submitted form, by field. Omitted fields have no value."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """Return a field's value without surrounding white space; empty if omitted."""
        return next(iter(self.fields.get(name, ())), "").strip()

    def whole(self, name: str) -> str:
        """Return a field's value unchanged, with Unix line ends."""
        return next(iter(self.fields.get(name, ())), "").replace("\r\n", "\n")

    def several(self, name: str) -> tuple[str, ...]:
        """Return all values of a field that are not empty."""
        return tuple(value for value in self.fields.get(name, ()) if value)

    def number(self, name: str) -> int:
        """Return a field's value as a whole number.

        Raises:
            InvalidInput: If it is not a whole number.
        """
        text = self.text(name).replace(",", "").replace("_", "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise InvalidInput("enter a whole number, such as 200", name)
        return int(text)


async def form_of(request: Request) -> SubmittedForm:
    """Parse the form in a request.

    Raises:
        InvalidInput: If the body is not a form.
    """
    try:
        text = (await request.body()).decode()
        return SubmittedForm(parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise InvalidInput(f"the request is not a form: {error}") from error


Sent = Annotated[SubmittedForm, Depends(form_of)]


@dataclass(frozen=True)
class ErrorPage(HtmlPage):
    """A page with an error and its remedy."""

    template = "error.html"

    status: int
    summary: str
    detail: str
    field: str | None = None

    @property
    def title(self) -> str:
        """Kind of error."""
        return self.summary


STATUS: Mapping[type[Exception], int] = {
    archive_errors.RecordNotFound: 404,
    archive_errors.AmbiguousId: 409,
    archive_errors.RecordConflict: 409,
    archive_errors.DatabaseUnavailable: 503,
    archive_errors.ArchiveError: 500,
    QueueUnavailable: 503,
    RequestValidationError: 404,
}
"""HTTP status of errors that have none of their own. A page whose address is invalid does not exist."""
SUMMARIES = {
    404: "Page not found",
    409: "Not possible in the present state",
    422: "Invalid input",
    403: "Not allowed",
    503: "Temporarily unavailable",
}
"""Headings of error pages."""


async def error_page(request: Request, error: Exception) -> Response:
    """Render an error as a page; redirect to the login page if a login is missing."""
    status = error.status if isinstance(error, ServiceError) else 500
    if isinstance(error, HTTPException):
        status = error.status_code
    else:
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), status)
    if status == 401:
        return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
    detail = _detail(error, status, request)
    summary = SUMMARIES.get(status, HTTPStatus(status).phrase)
    page = ErrorPage(status, summary, detail, error.field if isinstance(error, ServiceError) else None)
    return respond(page, await frame_of(request), status)


def with_error_pages(
    answer: Callable[[Request, Exception], Any],
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Wrap an error handler so that browsers get an error page outside page routes, too.

    Args:
        answer: The wrapped handler. Programs get its response, and it writes the log.
    """

    async def shown(request: Request, error: Exception) -> Response:
        answered = answer(request, error)
        response: Response = await answered if isawaitable(answered) else answered
        is_page = not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")
        return await error_page(request, error) if is_page else response

    return shown


def _detail(error: Exception, status: int, request: Request) -> str:
    if isinstance(error, RequestValidationError):
        return f"there is no page at {request.url.path}"
    if status == 503:
        return "the archive or the queue did not answer; try again in a moment"
    if isinstance(error, HTTPException):
        return f"there is no page at {request.url.path}" if status == 404 else str(error.detail)
    if isinstance(error, ServiceError):
        return error.detail
    return "the service failed on this request; see its log for the reason" if status >= 500 else str(error)


class PageRoute(APIRoute):
    """A route whose errors are pages for people."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler to show our errors as pages and to compress pages."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return packed(await handle(request), request)
            except (
                ServiceError,
                archive_errors.ArchiveError,
                QueueUnavailable,
                HTTPException,
                RequestValidationError,
            ) as error:
                return await error_page(request, error)

        return shown


def packed(response: Response, request: Request) -> Response:
    """Compress a page if the browser accepts gzip; return any other response unchanged."""
    takes = "gzip" in request.headers.get("accept-encoding", "")
    # A response that is streamed has no body yet.
    is_page = hasattr(response, "body") and response.headers.get("content-type", "").startswith("text/html")
    if takes and is_page and len(response.body) >= LEAST_PACKED_BYTES:
        response.body = gzip.compress(response.body, PACKING_LEVEL, mtime=0)
        response.headers.update({"Content-Encoding": "gzip", "Content-Length": str(len(response.body))})
    return response


def pages() -> APIRouter:
    """Make a router for pages, which are not part of the documented API."""
    return APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=Response)


def see_other(address: str) -> RedirectResponse:
    """Redirect the browser after a form, so that reloading the page does not submit it again."""
    return RedirectResponse(address, 303)
