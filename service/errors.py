"""Failures of the service: the classes that clients catch, so that one `except` serves both sides of the wire."""

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

__all__ = [
    "Conflict",
    "Forbidden",
    "InvalidInput",
    "NotFound",
    "RateLimited",
    "ServiceError",
    "Unauthenticated",
    "Unavailable",
]
