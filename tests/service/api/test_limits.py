"""Headers and bodies beyond any use are refused before anybody works on them, and the answer is a problem document."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from service.api.limits import MOST_HEADER_BYTES, MOST_HEADERS, BodyLimit, HeaderLimit
from service.api.problems import Problem, install
from service.security.json_depth import DEEPEST

MOST = 1000
LONGEST_S = 0.2


@pytest.fixture
def read() -> list[int]:
    """Sizes of the bodies that reached the app."""
    return []


@pytest.fixture
def app(read: list[int]) -> FastAPI:
    app = FastAPI()
    app.add_middleware(BodyLimit, most_bytes=MOST, longest_s=LONGEST_S)
    app.add_middleware(HeaderLimit)
    install(app)

    @app.post("/")
    async def take(request: Request) -> int:
        body = await request.body()
        assert request.state.body == body
        read.append(len(body))
        return read[-1]

    return app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 100


async def test_a_body_within_the_limit_passes(client: httpx.AsyncClient, read: list[int]) -> None:
    assert (await client.post("/", content=b"x" * MOST)).json() == MOST
    assert (await client.post("/", content=pieces(MOST // 100))).json() == MOST
    assert (await client.post("/")).json() == 0
    assert read == [MOST, MOST, 0]


@pytest.mark.parametrize("length", [str(MOST + 1), "9" * 30, "-1", "many"])
async def test_a_body_that_says_it_is_too_large_is_not_read(
    client: httpx.AsyncClient, read: list[int], length: str
) -> None:
    answer = await client.post("/", content=b"x", headers={"Content-Length": length})
    assert Problem.model_validate(answer.json()).title == "Too large"
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.headers["connection"], read) == (413, "close", [])


async def test_a_body_that_grows_too_large_is_cut_off(client: httpx.AsyncClient, read: list[int]) -> None:
    answer = await client.post("/", content=pieces(MOST // 100 + 1))
    assert Problem.model_validate(answer.json()).status == answer.status_code == 413
    assert read == []


async def test_a_body_that_does_not_come_is_not_waited_for(app: FastAPI, read: list[int]) -> None:
    async def drip() -> Message:
        await asyncio.sleep(LONGEST_S / 3)
        return {"type": "http.request", "body": b"x", "more_body": True}

    sent = await ask(app, drip)
    assert (sent[0]["status"], read) == (408, [])
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_whoever_goes_away_half_way_gets_no_answer(app: FastAPI, read: list[int]) -> None:
    async def leave() -> Message:
        return {"type": "http.disconnect"}

    assert await ask(app, leave) == read == []


async def ask(app: FastAPI, receive: object) -> list[Message]:
    """A POST whose body comes from a function."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    await app(scope, receive, send)  # type: ignore[arg-type]
    return sent


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b"[" * 900,
        b'{"a":' * 150,
        '{"a": "\u20ac"}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-16-le"),
        b'{"a": "\xff"}',
    ],
    ids=["deep", "open", "open objects", "utf-16 with its mark", "utf-16", "latin"],
)
async def test_what_a_parser_could_choke_on_is_refused(client: httpx.AsyncClient, read: list[int], body: bytes) -> None:
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "text/plain"}, {}):
        answer = await client.post("/", content=body, headers=headers)
        assert Problem.model_validate(answer.json()).status == answer.status_code == 400
    assert read == []


async def test_brackets_in_a_form_are_text(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/", content=b"spec=[[[", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [[("X-Long", "x" * MOST_HEADER_BYTES)], [(f"X-{number}", "1") for number in range(MOST_HEADERS + 1)]],
    ids=["long", "many"],
)
async def test_headers_have_their_limit_too(
    client: httpx.AsyncClient, read: list[int], headers: list[tuple[str, str]]
) -> None:
    answer = await client.post("/", headers=headers)
    assert Problem.model_validate(answer.json()).title == "Headers too large"
    assert (answer.status_code, read) == (431, [])
