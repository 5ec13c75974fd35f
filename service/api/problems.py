"""Problem documents (RFC 9457) for all errors: kind, detail and field."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response

from archive import errors as archive_errors
from kernelreef.validation import FieldFault, faults, most_telling_first
from service.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    RateLimited,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from workers.queue import QueueUnavailable

TITLES = {
    400: "Bad request",
    405: "Method not allowed",
    408: "Too slow",
    413: "Too large",
    421: "Wrong host",
    431: "Headers too large",
}
"""Titles of the statuses without a `ServiceError`."""
TITLES |= {
    error.status: error.title
    for error in (ServiceError, InvalidInput, NotFound, Conflict, Unauthenticated, Forbidden, RateLimited, Unavailable)
}
ARCHIVE_STATUS: Mapping[type[archive_errors.ArchiveError], int] = {
    archive_errors.RecordNotFound: 404,
    archive_errors.AmbiguousId: 409,
    archive_errors.RecordConflict: 409,
    archive_errors.Unstorable: 422,
    archive_errors.UnreadableDump: 422,
    archive_errors.DatabaseUnavailable: 503,
}
"""Status of each archive error. A test compares this with the archive's error classes."""

log = structlog.get_logger(__name__)


class FieldProblem(BaseModel):
    """One invalid field: its path, such as `body.devices[0]`, and the remedy."""

    field: str
    detail: str


class Problem(BaseModel):
    """A problem as defined in RFC 9457. `type` is stable; match on it, not on the text."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] = []


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": "A problem document",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in ("4XX", "5XX")
}
"""Error responses of all routes, for the OpenAPI document."""


def problem(
    status: int, detail: str, errors: Sequence[FieldProblem] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Make a response of a problem document."""
    title = TITLES.get(status) or HTTPStatus(status).phrase
    kind = f"urn:kernelreef:problem:{title.lower().replace(' ', '-')}"
    body = Problem(type=kind, title=title, status=status, detail=detail, errors=list(errors))
    # ASCII, because a path may quote a key that is not valid Unicode.
    text = json.dumps(body.model_dump())
    return Response(text, status, headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Make every error of an app a problem document."""
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ServiceError, answer_service_error)
    app.add_exception_handler(archive_errors.ArchiveError, answer_archive_error)
    app.add_exception_handler(QueueUnavailable, _on_queue)
    app.add_exception_handler(Exception, _on_failure)


def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    body = getattr(request.scope.get("route"), "body_field", None)
    expected = body.field_info.annotation if body is not None else None
    found = [_field_problem(each, expected) for each in most_telling_first(error.errors())]
    if any(each.field.startswith("path.") for each in found):
        return problem(404, f"there is no resource at {request.scope['path']}")
    first = f"{found[0].field}: {found[0].detail}"
    return problem(422, first if len(found) == 1 else f"{first} (and {len(found) - 1} more)", found)


def _field_problem(error: ErrorDetails, body: object) -> FieldProblem:
    """Describe one error of a request, whose location begins with `body`, `query` or `path`."""
    place, *way = error["loc"]
    # The rest of the location of a syntax error is an offset.
    located = ErrorDetails(**{**error, "loc": () if error["type"] == "json_invalid" else tuple(way)})
    fault = faults([located], body if place == "body" else None)[0]
    return FieldProblem(field=FieldFault((place, *fault.steps), "").path, detail=fault.problem)


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == HTTPStatus(error.status_code).phrase:
        detail = {
            404: f"there is no resource at {request.scope['path']}",
            405: f"{request.scope['path']} does not support {request.method}",
        }.get(error.status_code, detail)
    return problem(error.status_code, detail, headers=error.headers)


def answer_service_error(request: Request, error: Exception) -> Response:
    """Make a problem of a service error; a refusal is kept for the audit log."""
    assert isinstance(error, ServiceError)
    if error.status in (401, 403):
        request.state.refusal = error.detail
    if error.status >= 500:
        log.error("request failed", path=request.scope["path"], detail=error.detail)
    place = "query" if request.method == "GET" else "body"
    fields = [FieldProblem(field=f"{place}.{error.field}", detail=error.detail)] if error.field else []
    return problem(error.status, error.detail, fields, _headers(error))


def _headers(error: ServiceError) -> Mapping[str, str]:
    """Return the headers that a status requires: Retry-After (RFC 9110, 10.2.3) or WWW-Authenticate (11.6.1)."""
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.retry_after_s)}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else {}


def answer_archive_error(request: Request, error: Exception) -> Response:
    """Make a problem of an archive error; details of a failure go to the log only."""
    assert isinstance(error, archive_errors.ArchiveError)
    status = next((status for kind, status in ARCHIVE_STATUS.items() if isinstance(error, kind)), 500)
    if status >= 500:
        log.error("archive failed", path=request.scope["path"], detail=str(error))
        return problem(status, "the archive did not answer; try again" if status == 503 else "the archive failed")
    return problem(status, str(error))


def _on_queue(request: Request, error: Exception) -> Response:
    log.error("queue failed", path=request.scope["path"], detail=str(error))
    return problem(503, "the queue did not answer; try again")


def _on_failure(request: Request, error: Exception) -> Response:
    """Log a failure without details for the client: a traceback may hold addresses and secrets."""
    log.error("request failed", path=request.scope["path"], exc_info=error)
    return problem(500, "the service failed on this request; see its log for the reason")
