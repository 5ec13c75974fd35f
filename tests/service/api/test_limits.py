"""Large bodies are refused before they are taken in, and the answer is a problem document."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request

from service.api.limits import BodyLimit
from service.api.problems import Problem, install

MOST = 1000


@pytest.fixture
def read() -> list[int]:
    """Sizes of the bodies that reached the app."""
    return []


@pytest.fixture
async def client(read: list[int]) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.add_middleware(BodyLimit, most_bytes=MOST)
    install(app)

    @app.post("/")
    async def take(request: Request) -> int:
        read.append(len(await request.body()))
        return read[-1]

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
    assert (answer.status_code, read) == (413, [])


async def test_a_body_that_grows_too_large_is_cut_off(client: httpx.AsyncClient, read: list[int]) -> None:
    answer = await client.post("/", content=pieces(MOST // 100 + 1))
    assert Problem.model_validate(answer.json()).status == answer.status_code == 413
    assert read == []
