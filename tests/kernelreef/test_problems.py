"""Problem documents become the exceptions that the service raised."""

import httpx
import pytest

from kernelreef.problems import RequestRefused, raised, retry_after_s
from service.api.problems import FieldProblem, problem
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


def answer(status: int, content: bytes, **headers: str) -> httpx.Response:
    request = httpx.Request("GET", "http://reef.example.org/api/v1/searches")
    return httpx.Response(status, content=content, headers=headers, request=request)


@pytest.mark.parametrize(
    "kind", [InvalidInput, NotFound, Conflict, Unauthenticated, Forbidden, Unavailable, RateLimited, ServiceError]
)
def test_every_error_comes_back_as_it_was_raised(kind: type[ServiceError]) -> None:
    found = raised(answer(kind.status, problem(kind.status, "because").body))
    assert (type(found), found.detail, found.field) == (kind, "because", None)


@pytest.mark.parametrize(
    ("status", "kind"), [(413, RequestRefused), (421, RequestRefused), (502, Unavailable), (504, Unavailable)]
)
def test_the_rest_is_refused_or_unavailable(status: int, kind: type[ServiceError]) -> None:
    assert type(raised(answer(status, problem(status, "because").body))) is kind


def test_fields_are_named_as_the_caller_knows_them() -> None:
    wrong = [FieldProblem(field="body.devices[0]", detail="gpu"), FieldProblem(field="query.limit", detail="too many")]
    found = raised(answer(422, problem(422, "two", wrong).body))
    assert found.field == "devices[0]"
    assert found.__notes__ == ["query.limit: too many"]


def test_a_page_of_somebody_else_is_named_by_its_status() -> None:
    assert raised(answer(502, b"<html>")).detail == "reef.example.org answered 502 Bad Gateway"


@pytest.mark.parametrize(("said", "seconds"), [("7", 7), ("", 1), ("soon", 1), ("9" * 30, 1)])
def test_how_long_to_wait_is_read(said: str, seconds: int) -> None:
    assert retry_after_s(answer(429, b"", **{"Retry-After": said})) == seconds
