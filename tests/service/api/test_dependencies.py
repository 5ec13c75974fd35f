"""What routes are handed: only a well-formed id reaches the archive, and only a caller that the gate let in."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request
from uuid6 import uuid7

from archive.records import NewCandidate
from service.api.dependencies import RequireScope, caller_of, coordinator_of, needs, new_id
from service.api.paging import ID
from service.errors import Forbidden, Unauthenticated
from service.security.identity import LOCAL, Identity
from service.security.scopes import Scope, SearchGrant
from tests.service.api.conftest import fill
from tests.service.api.guarding import bearer, guarded

NOBODY = "0190a000-0000-7000-8000-000000000000"


def request(**state: Any) -> Request:
    return Request({"type": "http", "state": state})


def test_ids_that_we_make_are_ids() -> None:
    assert all(ID.fullmatch(str(uuid7())) for _ in range(100))


@pytest.mark.parametrize(
    "text", ["", "x", "0190A000-0000-7000-8000-000000000000", "0190a000-0000-7000-8000-000000000000\n"]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert re.fullmatch(ID, text) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_routes_get_the_coordinator_that_runs(service) -> None:
    assert await coordinator_of(Request({"type": "http", "app": service.app})) is service.coordinator


async def test_the_caller_is_whom_the_gate_let_in() -> None:
    assert await caller_of(request(caller=LOCAL)) is LOCAL


async def test_a_request_that_no_gate_has_seen_has_no_caller() -> None:
    for unseen in (request(), Request({"type": "http"})):
        with pytest.raises(Unauthenticated):
            await caller_of(unseen)


@pytest.mark.parametrize("stated", Scope)
async def test_a_need_is_met_by_its_scope_alone(stated: Scope) -> None:
    need = needs(stated).dependency
    assert isinstance(need, RequireScope) and need.scope is stated
    for scope in Scope:
        asked, caller = request(), Identity("t1", "laptop", frozenset({scope}))
        if scope is stated:
            await need(asked, caller)
        else:
            with pytest.raises(Forbidden, match=f"'{stated.value}'.*'laptop'"):
                await need(asked, caller)
            assert "laptop" in asked.state.refusal


async def test_a_new_id_is_the_one_kept_for_the_request() -> None:
    assert await new_id(request(resource="r1")) == "r1"
    first, second = [await new_id(request()) for _ in range(2)]
    assert first != second and ID.fullmatch(first)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_end_of_an_id_means_the_resource_wherever_an_id_is_taken(service, filled) -> None:
    client, search, candidate = service.client, filled.search.id, filled.best
    for address in ("/searches/{}", "/searches/{}/elites", "/searches/{}/progress"):
        short = await client.get(address.format(search[-12:]))
        assert short.status_code == 200 and short.json() == (await client.get(address.format(search))).json()
    short = await client.get(f"/candidates/{candidate[-12:]}")
    assert short.json()["id"] == candidate
    prompts = await client.get("/prompts", params={"search": search[-12:]})
    assert prompts.json() == {"items": [], "next": None}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", ["searches", "candidates", "prompts", "tokens", "workers"])
async def test_what_is_no_id_of_a_resource_is_told_what_an_id_is(service, kind: str) -> None:
    method, address = {"tokens": ("DELETE", "/tokens/{}"), "workers": ("POST", "/workers/{}/drain")}.get(
        kind, ("GET", f"/{kind}/{{}}")
    )
    for text in ("x", "abc", "%", "0190A0"):
        answer = await service.client.request(method, address.format(quote(text)))
        assert answer.status_code == 404
        assert answer.json()["detail"].endswith("give its id, or the last 6 characters of it")
    unknown = await service.client.request(method, address.format("fedcba9"))
    assert unknown.status_code == 404 and "fedcba9" in unknown.json()["detail"]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_end_that_several_ids_have_is_refused_with_their_names(service, filled) -> None:
    store, ids = service.coordinator.store, [f"{str(uuid7())[:-7]}0ddba11" for _ in range(2)]
    for ordinal, id in enumerate(ids):
        new = NewCandidate(id, filled.search.id, 90 + ordinal, "tune", f"# {id}\n", id, id)
        await store.candidates.add(new)
    answer = await service.client.get("/candidates/0ddba11")
    assert answer.status_code == 409
    assert all(id in answer.json()["detail"] for id in ids)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("method", "address", "field", "said"),
    [
        ("GET", "/searches?stat=done", "query.stat", "did you mean 'state'?"),
        ("GET", "/searches?limit=1&zzz=1", "query.zzz", "this address takes cursor, device,"),
        ("GET", f"/searches/{NOBODY}/archive?devise=x", "query.devise", "did you mean 'device'?"),
        ("GET", "/descriptors?axis=x", "query.axis", "this address takes cursor, limit"),
        ("POST", f"/searches/{NOBODY}/stop?force=1", "query.force", "this address takes no parameters"),
        ("GET", "http://127.0.0.1/healthz?deep=1", "query.deep", "this address takes no parameters"),
    ],
)
async def test_unknown_parameters_are_refused(service, method: str, address: str, field: str, said: str) -> None:
    answer = await service.client.request(method, address)
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, field)
    assert said in error["detail"]


@pytest.mark.asyncio(loop_scope="module")
async def test_all_parameters_of_the_document_are_known(service) -> None:
    for path, item in service.app.openapi()["paths"].items():
        names = [each["name"] for each in item.get("get", {}).get("parameters", ()) if each["in"] == "query"]
        if names and "{name}" not in path:
            where = path.replace("{id}", NOBODY).replace("{cell}", "0")
            answer = await service.client.get(f"http://127.0.0.1{where}", params=dict.fromkeys(names, "0"))
            assert "no such parameter" not in answer.text, path


@pytest.mark.asyncio(loop_scope="module")
async def test_a_token_of_one_search_opens_that_search_and_nothing_else(service, filled) -> None:
    store, mine = service.coordinator.store, filled.search
    grant = SearchGrant(mine.id)
    headers = await bearer(store, (Scope.READ, Scope.PROPOSE, Scope.STEER), grant=grant)
    other = await fill(store)
    within = [
        f"/searches/{mine.id}",
        f"/searches/{mine.id}/elites",
        f"/searches/{mine.id}/candidates",
        f"/searches/{mine.id[-8:]}/progress",
        f"/candidates/{filled.best}",
        f"/candidates/{filled.best}/certificate",
        f"/prompts?search={mine.id}",
        f"/operators/{mine.operator}",
        f"/operators/{mine.operator_name}",
    ]
    beyond = [
        "/searches",
        f"/searches/{other.search.id}",
        f"/searches/{other.search.id}/elites",
        f"/candidates/{other.best}",
        f"/candidates/{NOBODY}",
        "/prompts",
        f"/prompts?search={other.search.id}",
        f"/prompts?search={mine.id}&search={other.search.id}",
        "/prompts/" + NOBODY,
        "/operators",
        "/operators/rmsnorm",
        "/workers",
        "/backends",
        "/descriptors",
        "/tokens",
        "/audit",
    ]
    async with guarded(service.coordinator) as client:
        seen = {path: (await client.get(f"/api/v1{path}", headers=headers)).status_code for path in (*within, *beyond)}
        pages = [
            await client.get(path, headers=headers) for path in ("/", f"/searches/{mine.id}", "/prompts", "/compare")
        ]
        stop = await client.post(f"/api/v1/searches/{other.search.id}/stop", headers=headers)
        submit = await client.post("/api/v1/searches", headers=headers, json={"operator": "rmsnorm"})
    assert {path: status for path, status in seen.items() if path in within and status != 200} == {}
    assert {path: status for path, status in seen.items() if path in beyond and status != 403} == {}
    assert [page.status_code for page in pages] == [403] * 4
    assert (stop.status_code, submit.status_code) == (403, 403)
    assert "for the search" in stop.json()["detail"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_token_that_only_steers_may_propose_and_one_that_only_reads_may_not(service, filled) -> None:
    address, body = f"/api/v1/searches/{filled.search.id}/candidates", {"source": "import torch\n"}
    async with guarded(service.coordinator) as client:
        for scopes, status in (((Scope.READ,), 403), ((Scope.PROPOSE,), 409), ((Scope.STEER,), 409)):
            headers = await bearer(service.coordinator.store, scopes)
            assert (await client.post(address, headers=headers, json=body)).status_code == status
            claimed = await client.post(f"/api/v1/prompts/{NOBODY}/claim", headers=headers, json={"answerer": "ada"})
            assert claimed.status_code == (403 if status == 403 else 404)
