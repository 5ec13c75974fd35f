"""Failures of the service, each with the HTTP status that it becomes.

ServiceError            500
├── InvalidInput        422  invalid request; names the field and what would be right
├── NotFound            404  no such resource
├── Conflict            409  the state of the resource does not allow it
├── Unauthenticated     401  no valid credential
├── Forbidden           403  outside the caller's scopes
├── RateLimited         429  too many requests; says when to retry
└── Unavailable         503  a dependency did not answer; retry
"""

from typing import ClassVar


class ServiceError(Exception):
    """Base of the service's errors. `title` is for people; `field` names the wrong field, if there is one."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Our failure"

    def __init__(self, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class InvalidInput(ServiceError):
    """The request is invalid."""

    status = 422
    title = "Bad input"


class NotFound(ServiceError):
    """The resource does not exist."""

    status = 404
    title = "Not found"


class Conflict(ServiceError):
    """The state of the resource does not allow the change."""

    status = 409
    title = "Conflict"


class Unauthenticated(ServiceError):
    """The request has no valid credential."""

    status = 401
    title = "Unauthenticated"


class Forbidden(ServiceError):
    """The caller's scopes do not allow the request."""

    status = 403
    title = "Forbidden"


class RateLimited(ServiceError):
    """The caller sent too many requests; the next is accepted after `retry_after_s` seconds."""

    status = 429
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(ServiceError):
    """A dependency did not answer; the same call may succeed later."""

    status = 503
    title = "Unavailable"
