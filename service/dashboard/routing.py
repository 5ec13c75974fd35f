"""What page routes share: the frame around a page, forms as they were sent, and errors that are pages too."""

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
"""Fields of a form; ours have a few dozen."""
LEAST_PACKED_BYTES, PACKING_LEVEL = 1024, 5
"""Shorter pages are sent as they are; longer ones shrink sixfold in a millisecond or two. That the length of a packed
page tells something of its secrets (the BREACH attack) takes requests of another site with our cookie, and browsers
send it with none (SameSite=Strict)."""
LINKS = (
    ("/", "Searches", Scope.READ),
    ("/compare", "Compare", Scope.READ),
    ("/operators", "Operators", Scope.READ),
    ("/workers", "Workers", Scope.READ),
    ("/prompts", "Prompts", Scope.READ),
    ("/tokens", "Tokens", Scope.ADMIN),
)
"""Pages in the navigation, each with the scope that it takes."""


async def frame_of(request: Request) -> PageFrame:
    """The frame around the page that is asked for: of a stranger, the frame of the login."""
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
    """A form as it was sent, by field. Fields that were left out have no value."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """A field's value without white space around it; empty if it was left out."""
        return next(iter(self.fields.get(name, ())), "").strip()

    def whole(self, name: str) -> str:
        """A field's value as it is, with line ends as on Unix."""
        return next(iter(self.fields.get(name, ())), "").replace("\r\n", "\n")

    def several(self, name: str) -> tuple[str, ...]:
        """All values of a field that are not empty."""
        return tuple(value for value in self.fields.get(name, ()) if value)

    def number(self, name: str) -> int:
        """A field's value as a whole number.

        Raises:
            BadInput: If it is none.
        """
        text = self.text(name).replace(",", "").replace("_", "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise InvalidInput("write a whole number, such as 200", name)
        return int(text)


async def form_of(request: Request) -> SubmittedForm:
    """The form that a request carries.

    Raises:
        BadInput: If the body is no form.
    """
    try:
        text = (await request.body()).decode()
        return SubmittedForm(parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise InvalidInput(f"this is no form: {error}") from error


Sent = Annotated[SubmittedForm, Depends(form_of)]


@dataclass(frozen=True)
class ErrorPage(HtmlPage):
    """What went wrong, and what to do about it."""

    template = "error.html"

    status: int
    summary: str
    detail: str
    field: str | None = None

    @property
    def title(self) -> str:
        """The kind of error."""
        return self.summary


STATUS: Mapping[type[Exception], int] = {
    archive_errors.RecordNotFound: 404,
    archive_errors.RecordConflict: 409,
    archive_errors.DatabaseUnavailable: 503,
    archive_errors.ArchiveError: 500,
    QueueUnavailable: 503,
    RequestValidationError: 404,
}
"""Status of each kind of error that carries none itself. What does not validate in a page's address is not there."""
SUMMARIES = {
    404: "There is nothing here",
    409: "That cannot be done now",
    422: "That cannot be right",
    403: "You may not do this",
    503: "Not available at the moment",
}
"""Headings of error pages."""


async def error_page(request: Request, error: Exception) -> Response:
    """An error as a page; who is not logged in is sent to the login."""
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


def for_people(answer: Callable[[Request, Exception], Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Have an error outside of any page route shown as a page to who wants one; programs get what they got before.

    Args:
        answer: What programs get; it also tells the log.
    """

    async def shown(request: Request, error: Exception) -> Response:
        answered = answer(request, error)
        told: Response = await answered if isawaitable(answered) else answered
        is_page = not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")
        return await error_page(request, error) if is_page else told

    return shown


def _detail(error: Exception, status: int, request: Request) -> str:
    if isinstance(error, RequestValidationError):
        return f"there is nothing at {request.url.path}"
    if status == 503:
        return "the archive or the queue did not answer; try again in a moment"
    if isinstance(error, HTTPException):
        return f"there is nothing at {request.url.path}" if status == 404 else str(error.detail)
    if isinstance(error, ServiceError):
        return error.detail
    return "the service failed on this request; its log says why" if status >= 500 else str(error)


class PageRoute(APIRoute):
    """A route whose errors are pages, because a person reads them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's own handler, with our errors shown instead of raised."""
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
    """A page compressed, if the browser takes that; anything else as it is."""
    takes = "gzip" in request.headers.get("accept-encoding", "")
    is_page = response.headers.get("content-type", "").startswith("text/html")
    if takes and is_page and len(response.body) >= LEAST_PACKED_BYTES:
        response.body = gzip.compress(response.body, PACKING_LEVEL, mtime=0)
        response.headers.update({"Content-Encoding": "gzip", "Content-Length": str(len(response.body))})
    return response


def pages() -> APIRouter:
    """A router for pages: not part of the documented API."""
    return APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=Response)


def see_other(address: str) -> RedirectResponse:
    """Send the browser to a page after a form was taken, so that reloading it sends nothing again."""
    return RedirectResponse(address, 303)
