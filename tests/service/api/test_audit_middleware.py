"""What is changed or refused is written down: who, what, on what, from where, and what came of it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from uuid6 import uuid7

from archive.records import AuditRecord
from service.api.auth import GUESSES
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.authentication import issue
from service.security.scopes import Scope
from tests.service.api.guarding import ALWAYS, bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def strict(service) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(service.coordinator) as client:
        yield client


async def newest(service, count: int = 1) -> list[AuditRecord]:
    return await service.coordinator.store.audit.list(limit=count)


async def test_a_change_is_written_down(service, strict) -> None:
    token, text = await issue(service.coordinator.store, "laptop", {Scope.STEER})
    search = str(uuid7())
    headers = {"Authorization": f"Bearer {text}"}
    assert (await strict.post(f"/api/v1/searches/{search}/stop", headers=headers)).status_code == 404
    (entry,) = await newest(service)
    assert (entry.token, entry.caller, entry.address, entry.status) == (token.id, "laptop", "127.0.0.1", 404)
    assert entry.action == "POST /api/v1/searches/{id}/stop"
    assert entry.target == f"/api/v1/searches/{search}/stop"
    assert entry.detail == ""


async def test_a_refusal_is_written_down_with_its_reason(service, strict) -> None:
    headers = await bearer(service.coordinator.store, {Scope.READ})
    for method, path in (("GET", "/api/v1/audit"), ("POST", "/api/v1/tokens")):
        await strict.request(method, path, headers=headers, json={} if method == "POST" else None)
        (entry,) = await newest(service)
        assert (entry.action, entry.status) == (f"{method} {path}", 403)
        assert "needs the scope 'admin'" in entry.detail


async def test_the_machines_own_user_is_written_down_too(service) -> None:
    await service.client.post(f"/searches/{uuid7()}/pause")
    (entry,) = await newest(service)
    assert (entry.token, entry.caller, entry.action) == (None, "local", "POST /api/v1/searches/{id}/pause")


async def test_reading_is_not_written_down(service, strict) -> None:
    before = await newest(service)
    assert (await strict.get("/api/v1/tokens", headers=await bearer(service.coordinator.store))).status_code == 200
    assert await newest(service) == before


async def test_logins_are_written_down_whatever_came_of_them(service, strict) -> None:
    token, text = await issue(service.coordinator.store, "person", {Scope.READ})
    await strict.post("/login", json={"token": text})
    await strict.post("/login", json={"token": "reef_wrong"})
    await strict.post("/login", data={"token": "reef_wrong"})
    form, wrong, right = await newest(service, 3)
    assert (right.token, right.status, right.action) == (token.id, 200, "POST /login")
    assert (wrong.token, wrong.caller, wrong.status, form.status) == (None, "", 401, 303)
    assert "this is not a token" in wrong.detail and wrong.detail == form.detail
    assert not any(text in str(entry) for entry in (form, wrong, right))


async def test_a_flood_is_not_written_down(service) -> None:
    before = (await newest(service))[0].seq
    doors = AccessPolicy(LoginPolicy.ALWAYS, ALWAYS.hosts, requests_per_s=5)
    async with guarded(service.coordinator, doors) as client:
        for _ in range(60):
            await client.post("/api/v1/searches", headers={"Authorization": "Bearer nonsense"})
    assert (await newest(service))[0].seq == before + GUESSES


async def test_a_path_is_cut_and_any_text_is_taken(service, strict) -> None:
    headers = await bearer(service.coordinator.store)
    await strict.post("/api/v1/" + "x" * 2000, headers=headers)
    await strict.post("/%00%ff%ed%a0%80", headers=headers)
    strange, long = await newest(service, 2)
    assert (len(long.target), long.status) == (500, 404)
    assert "\0" not in strange.target
