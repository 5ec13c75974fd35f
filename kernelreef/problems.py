"""Problem documents (RFC 9457) as the exceptions of the service."""

import httpx
from pydantic import BaseModel, ValidationError

from kernelreef.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    RateLimited,
    ServiceError,
    Unauthenticated,
    Unavailable,
)

KINDS = {kind.status: kind for kind in (InvalidInput, NotFound, Conflict, Unauthenticated, Forbidden, Unavailable)}
"""Exceptions by the status of the problem."""
KINDS |= {502: Unavailable, 504: Unavailable}
RETRY_AFTER_S = 1
"""Wait after a 429 without `Retry-After`, seconds."""


class RequestRefused(ServiceError):
    """The request was refused for another reason, such as a body that is too large or a wrong host."""

    status = 400
    title = "Refused"


class ServiceUnreachable(Unavailable):
    """The service did not answer, or not in time."""

    title = "Unreachable"


class _Field(BaseModel):
    field: str
    detail: str


class _Problem(BaseModel):
    """Fields of a problem document that exceptions need."""

    detail: str
    errors: tuple[_Field, ...] = ()


def raised(answer: httpx.Response) -> ServiceError:
    """Return the exception for an answer, whose body has been read.

    Args:
        answer: An answer with a status of 400 or more.
    """
    try:
        problem = _Problem.model_validate_json(answer.content)
    except ValidationError:
        # Not from Kernelreef: a proxy's page, or another service at this address.
        problem = _Problem(detail=f"{answer.request.url.host} answered {answer.status_code} {answer.reason_phrase}")
    if answer.status_code == 429:
        return RateLimited(problem.detail, retry_after_s(answer))
    unnamed = ServiceError if answer.status_code >= 500 else RequestRefused
    fields = [error.field.partition(".")[2] or error.field for error in problem.errors]
    # The document's own detail repeats the first field.
    detail = problem.errors[0].detail if problem.errors else problem.detail
    error = KINDS.get(answer.status_code, unnamed)(detail, fields[0] if fields else None)
    for further in problem.errors[1:]:
        error.add_note(f"{further.field}: {further.detail}")
    return error


def retry_after_s(answer: httpx.Response) -> int:
    """Return the seconds of `Retry-After`."""
    said = answer.headers.get("retry-after", "")
    return int(said) if said.isdecimal() and len(said) < 6 else RETRY_AFTER_S
