"""Every error is a problem document: with the right status, the field's path, and nothing of our inside."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from archive import errors as archive_errors
from service.api.problems import ARCHIVE_STATUS, TITLES, Problem, install, problem
from service.errors import Conflict, InvalidInput, NotFound, ServiceError, Unavailable
from workers.queue import QueueUnavailable

RAISED: dict[str, Exception] = {
    "bad-input": InvalidInput("write one of: a, b", "devices[0]"),
    "not-found": NotFound("there is no search 7"),
    "conflict": Conflict("it is done"),
    "unavailable": Unavailable("the queue did not answer"),
    "our-failure": ServiceError("worker 3 said something odd"),
    "archive-not-found": archive_errors.RecordNotFound("there is no search 7"),
    "archive-conflict": archive_errors.RecordConflict("it is done"),
    "archive-unavailable": archive_errors.DatabaseUnavailable("postgresql://reef:hunter2@db"),
    "queue": QueueUnavailable("redis://:hunter2@redis"),
    "archive": archive_errors.ArchiveError("hunter2"),
    "bug": ZeroDivisionError("hunter2"),
    "teapot": HTTPException(418, "short and stout", headers={"Retry-After": "5"}),
}


class Body(BaseModel):
    counts: list[int]


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """An app whose routes fail in every way there is."""
    app = FastAPI()
    install(app)

    @app.get("/raise/{name}")
    async def fail(name: str) -> None:
        raise RAISED[name]

    @app.post("/body")
    async def take(body: Body, limit: int = 1) -> None:
        raise AssertionError(f"{body} {limit} should have been refused")

    @app.get("/number/{number}")
    async def number(number: int) -> int:
        return number

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def read(answer: httpx.Response) -> Problem:
    """A problem document whose status agrees with its answer's."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = Problem.model_validate(answer.json())
    assert document.status == answer.status_code
    assert document.type == f"urn:kernelreef:problem:{document.title.lower().replace(' ', '-')}"
    return document


@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("bad-input", 422, "write one of: a, b"),
        ("not-found", 404, "there is no search 7"),
        ("conflict", 409, "it is done"),
        ("unavailable", 503, "the queue did not answer"),
        ("our-failure", 500, "worker 3 said something odd"),
        ("archive-not-found", 404, "there is no search 7"),
        ("archive-conflict", 409, "it is done"),
        ("archive-unavailable", 503, "the archive did not answer; try again"),
        ("queue", 503, "the queue did not answer; try again"),
        ("archive", 500, "the archive failed"),
        ("bug", 500, "the service failed on this request; see its log for the reason"),
        ("teapot", 418, "short and stout"),
    ],
)
async def test_an_error_becomes_its_problem(client: httpx.AsyncClient, name: str, status: int, detail: str) -> None:
    answer = await client.get(f"/raise/{name}")
    document = await read(answer)
    assert (document.status, document.detail) == (status, detail)
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text


async def test_the_field_that_was_wrong_is_named(client: httpx.AsyncClient) -> None:
    (error,) = (await read(await client.get("/raise/bad-input"))).errors
    assert error.field == "query.devices[0]"


async def test_headers_of_an_http_error_are_kept(client: httpx.AsyncClient) -> None:
    assert (await client.get("/raise/teapot")).headers["retry-after"] == "5"


async def test_validation_names_every_field(client: httpx.AsyncClient) -> None:
    document = await read(await client.post("/body?limit=x", json={"counts": [1, "two"]}))
    assert [error.field for error in document.errors] == ["query.limit", "body.counts[1]"]
    assert document.detail.endswith("(and 1 more)")


async def test_a_body_that_is_not_json_is_refused(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"{", b"\xff\xfe", b"[" * 100_000):
        assert 400 <= (await read(await client.post("/body", content=content, headers=headers))).status < 500


async def test_keys_that_are_no_unicode_do_no_harm(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    answer = await client.post("/body", content=b'{"counts": {"\\ud800": 1}}', headers=headers)
    assert (await read(answer)).status == 422


async def test_a_path_that_cannot_be_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await read(await client.get("/number/seven"))).detail == "there is no resource at /number/seven"
    assert (await read(await client.get("/nowhere"))).detail == "there is no resource at /nowhere"


async def test_a_method_that_a_path_does_not_take_is_named(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/number/7")
    assert (await read(answer)).detail == "/number/7 does not support DELETE"
    assert answer.headers["allow"] == "GET"


def test_every_error_of_both_rooms_has_a_status() -> None:
    assert set(archive_errors.ArchiveError.__subclasses__()) == set(ARCHIVE_STATUS)
    assert {kind.status for kind in (ServiceError, InvalidInput, NotFound, Conflict, Unavailable)} <= set(TITLES)


def test_a_problem_is_ascii_whatever_it_quotes() -> None:
    assert json.loads(bytes(problem(404, "\ud800 \u20ac").body))["detail"] == "\ud800 \u20ac"
