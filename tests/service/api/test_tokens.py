"""Tokens over REST: made once shown once, never more than their maker's, listed without secrets, revoked for good."""

from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from kernelreef.models import IssuedToken, Token
from service.api.paging import Page
from service.security.scopes import Scope
from tests.service.api.guarding import bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()


async def test_a_token_is_made_and_works(client, service) -> None:
    answer = await client.post("/tokens", json={"name": "ci", "scopes": ["submit", "read"], "expires_at": TOMORROW})
    made = IssuedToken.model_validate(answer.json())
    assert (answer.status_code, made.name, made.scopes) == (201, "ci", ("read", "submit"))
    assert answer.headers["cache-control"] == "no-store"
    assert (made.created_by, made.revoked_at, made.last_used_at) == (None, None, None)
    headers = {"Authorization": f"Bearer {made.token}"}
    async with guarded(service.coordinator) as strict:
        assert (await strict.get("/api/v1/searches", headers=headers)).status_code == 200
        assert (await strict.get("/api/v1/tokens", headers=headers)).status_code == 403


async def test_no_list_shows_a_secret(client, service) -> None:
    made = IssuedToken.model_validate((await client.post("/tokens", json={"name": "x", "scopes": ["read"]})).json())
    answer = await client.get("/tokens")
    listed = Page[Token].model_validate(answer.json()).items
    assert made.id in [token.id for token in listed]
    stored = await service.coordinator.store.tokens.get(made.id)
    assert made.token not in answer.text and stored.digest not in answer.text


async def test_lists_are_paged(client) -> None:
    for name in "abc":
        await client.post("/tokens", json={"name": name, "scopes": ["read"]})
    first = (await client.get("/tokens", params={"limit": 2})).json()
    rest = (await client.get("/tokens", params={"limit": 2, "cursor": first["next"]})).json()
    names = [token["name"] for token in first["items"] + rest["items"]]
    assert names[:3] == ["c", "b", "a"]


@pytest_asyncio.fixture(loop_scope="module")
async def administrator(service) -> dict[str, str]:
    return await bearer(service.coordinator.store, {Scope.ADMIN})


async def test_nobody_can_give_what_he_has_not(client, administrator) -> None:
    answer = await client.post("/tokens", json={"name": "x", "scopes": ["read", "submit"]}, headers=administrator)
    assert (answer.status_code, answer.json()["detail"]) == (403, "a token cannot give scopes that it lacks: submit")
    made = await client.post("/tokens", json={"name": "x", "scopes": ["read"]}, headers=administrator)
    assert (made.status_code, made.json()["created_by"] is None) == (201, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "body.name"),
        ({"name": "a\nb"}, "body.name"),
        ({"name": "x" * 65}, "body.name"),
        ({"scopes": []}, "body.scopes"),
        ({"scopes": ["fly"]}, "body.scopes[0]"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "body.expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "body.expires_at"),
        ({"digest": "0" * 64}, "body.digest"),
    ],
)
async def test_what_cannot_be_right_is_named(client, change, field: str) -> None:
    answer = await client.post("/tokens", json={"name": "x", "scopes": ["read"], **change})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_a_revoked_token_stays_in_the_list(client) -> None:
    made = (await client.post("/tokens", json={"name": "lost", "scopes": ["read"]})).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert (await client.get("/searches", headers=headers)).status_code == 200
    revoked = Token.model_validate((await client.delete(f"/tokens/{made['id']}")).json())
    assert revoked.revoked_at is not None
    assert (await client.get("/searches", headers=headers)).status_code == 401
    again = await client.delete(f"/tokens/{made['id']}")
    assert Token.model_validate(again.json()) == revoked
    assert made["id"] in [token["id"] for token in (await client.get("/tokens")).json()["items"]]


async def test_what_is_not_there_is_not_found(client) -> None:
    assert (await client.delete("/tokens/0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4")).status_code == 404
    assert (await client.delete("/tokens/7")).status_code == 404
