"""Idempotency keys: a request that is sent again is answered again, and nothing is made twice."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import Request
from fastapi.responses import JSONResponse
from uuid6 import uuid7

from archive.records import IdempotencyRecord
from archive.store.idempotency import LAPSE
from service.api.dependencies import NewId
from service.api.idempotency import KEY
from service.app import create_app
from service.security.scopes import Scope
from service.settings import Settings
from tests.service.api.guarding import bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEARCH = {"operator": "rmsnorm", "evaluations": 3}


def key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid7())}


async def count(service: Any) -> int:
    return len(await service.coordinator.store.searches.list(limit=1000))


async def test_a_search_is_started_once(client, service) -> None:
    before, headers = await count(service), key()
    first, again = [await client.post("/searches", json=SEARCH, headers=headers) for _ in range(2)]
    assert first.status_code == again.status_code == 202
    assert first.content == again.content
    assert first.headers["location"] == again.headers["location"]
    assert again.headers["content-type"] == "application/json"
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert await count(service) == before + 1


async def test_without_a_key_it_is_started_again(client, service) -> None:
    before = await count(service)
    ids = {(await client.post("/searches", json=SEARCH)).json()["id"] for _ in range(2)}
    assert (len(ids), await count(service)) == (2, before + 2)


async def test_many_at_once_start_one(client, service) -> None:
    before, headers = await count(service), key()
    answers = await asyncio.gather(*(client.post("/searches", json=SEARCH, headers=headers) for _ in range(8)))
    assert {answer.status_code for answer in answers} <= {202, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
    assert await count(service) == before + 1


async def test_a_key_stays_with_its_request(client) -> None:
    headers = key()
    await client.post("/searches", json=SEARCH, headers=headers)
    for path, body in (("/searches", {**SEARCH, "seed": 1}), ("/searches?x=1", SEARCH), ("/operators", SEARCH)):
        answer = await client.post(path, json=body, headers=headers)
        assert (answer.status_code, "another request" in answer.json()["detail"]) == (422, True)


async def test_what_was_refused_may_be_put_right_under_the_same_key(client) -> None:
    headers = key()
    assert (await client.post("/searches", json={"operator": "none"}, headers=headers)).status_code == 422
    assert (await client.post("/searches", json=SEARCH, headers=headers)).status_code == 202


async def test_keys_are_the_callers_own(service) -> None:
    headers = key()
    one, other = [await bearer(service.coordinator.store, {Scope.SUBMIT}) for _ in range(2)]
    async with guarded(service.coordinator) as client:
        ids = [
            (await client.post("/api/v1/searches", json=SEARCH, headers={**headers, **who})).json()["id"]
            for who in (one, other, one)
        ]
        assert ids[0] == ids[2] != ids[1]
        stranger = await client.post("/api/v1/searches", json=SEARCH, headers=headers)
        assert stranger.status_code == 401


async def test_an_answer_that_may_not_be_seen_any_more_is_not_given_again(service) -> None:
    headers = {**key(), **await bearer(service.coordinator.store, {Scope.SUBMIT})}
    async with guarded(service.coordinator) as client:
        assert (await client.post("/api/v1/searches", json=SEARCH, headers=headers)).status_code == 202
        newest = (await service.coordinator.store.tokens.list(limit=1))[0]
        await service.coordinator.store.tokens.revoke(newest.id)
        assert (await client.post("/api/v1/searches", json=SEARCH, headers=headers)).status_code == 401


async def test_while_it_is_being_answered_the_second_waits(client, service) -> None:
    headers = key()
    first = (await client.post("/searches", json=SEARCH, headers=headers)).json()
    replies = service.coordinator.store.replies
    other = key()
    at = datetime.now(UTC)
    kept, _ = await replies.claim(IdempotencyRecord("local", headers["Idempotency-Key"], "", "", at, at, None, {}, b""))
    pending = IdempotencyRecord(
        "local", other["Idempotency-Key"], kept.fingerprint, first["id"], kept.created_at, at, None, {}, b""
    )
    await replies.claim(pending)
    answer = await client.post("/searches", json=SEARCH, headers=other)
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "1")


async def test_an_attempt_that_died_is_finished_and_makes_nothing_twice(client, service) -> None:
    """As if the service had been killed after the search was stored and before the answer was."""
    replies, before = service.coordinator.store.replies, await count(service)
    done = key()
    first = (await client.post("/searches", json=SEARCH, headers=done)).json()
    at = datetime.now(UTC)
    kept, _ = await replies.claim(IdempotencyRecord("local", done["Idempotency-Key"], "", "", at, at, None, {}, b""))
    died, long_ago = key(), kept.created_at - 2 * LAPSE
    await replies.claim(
        IdempotencyRecord(
            "local", died["Idempotency-Key"], kept.fingerprint, first["id"], long_ago, long_ago, None, {}, b""
        )
    )
    again = await client.post("/searches", json=SEARCH, headers=died)
    assert (again.status_code, again.json()["id"]) == (202, first["id"])
    assert await count(service) == before + 1


async def test_a_secret_is_not_kept(client, service) -> None:
    headers = key()
    body = {"name": "ci", "scopes": ["read"]}
    made = (await client.post("/tokens", json=body, headers=headers)).json()
    again = await client.post("/tokens", json=body, headers=headers)
    assert (again.status_code, made["id"] in again.json()["detail"]) == (409, True)
    assert made["token"] not in again.text
    at = datetime.now(UTC)
    kept, _ = await service.coordinator.store.replies.claim(
        IdempotencyRecord("local", headers["Idempotency-Key"], "", "", at, at, None, {}, b"")
    )
    assert (kept.status, kept.body) == (201, b"")


@pytest.mark.parametrize("wrong", ["", '""', "x" * 256, "a b", "\u00e4".encode("latin-1")])
async def test_a_key_that_is_none_is_refused(client, wrong) -> None:
    answer = await client.post("/searches", json=SEARCH, headers={"Idempotency-Key": wrong})
    assert (answer.status_code, answer.json()["title"]) == (400, "Bad request")


async def test_keys_may_have_quotes() -> None:
    assert [KEY.fullmatch(text)[1] for text in ("abc-1", '"abc-1"')] == ["abc-1"] * 2  # type: ignore[index]


@pytest_asyncio.fixture(loop_scope="module")
async def failing(service) -> AsyncIterator[tuple[httpx.AsyncClient, list[str]]]:
    """An app whose route notes the id it was given, then fails, answers a lot, or answers in pieces."""
    app, ids = create_app(Settings()), []
    app.state.coordinator = service.coordinator

    @app.post("/make")
    async def make(request: Request, id: NewId) -> JSONResponse:
        ids.append(id)
        body = await request.json()
        if len(ids) < body["failures"] + 1:
            raise ZeroDivisionError
        return JSONResponse({"id": id, "padding": "x" * body["padding"]}, 201)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client, ids


async def test_after_our_failure_the_next_attempt_makes_the_same_thing(failing) -> None:
    client, ids = failing
    headers = key()
    answers = [await client.post("/make", json={"failures": 2, "padding": 0}, headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [500, 500, 201, 201]
    assert (len(ids), set(ids)) == (3, {answers[3].json()["id"]})


async def test_an_answer_too_large_to_keep_is_given_once(failing) -> None:
    client, ids = failing
    headers = key()
    answers = [await client.post("/make", json={"failures": 0, "padding": 2**20}, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert len(ids) == 2
