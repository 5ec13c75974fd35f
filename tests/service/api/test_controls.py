"""Steering over HTTP: budgets up and down, pins, hints; nothing final comes back to life."""

import httpx
import pytest
import pytest_asyncio

from archive.records import SearchState
from service.scheduler.changes import MOST_HINTS

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "0190a000-0000-7000-8000-000000000000"


@pytest_asyncio.fixture(loop_scope="module")
async def search(client: httpx.AsyncClient, service) -> str:
    body = {"operator": "rmsnorm", "evaluations": 20, "axes": ["num_warps"]}
    return str((await client.post("/searches", json=body)).json()["id"])


async def test_a_budget_goes_up_and_down(client: httpx.AsyncClient, search: str) -> None:
    for evaluations in (40, 5):
        answer = await client.patch(f"/searches/{search}", json={"evaluations": evaluations})
        assert (answer.status_code, answer.json()["evaluations"]) == (200, evaluations)
    assert (await client.get(f"/searches/{search}")).json()["evaluations"] == 5


async def test_a_budget_never_goes_below_what_was_proposed(client: httpx.AsyncClient, service, filled) -> None:
    store = service.coordinator.store
    await store.searches.set_state(filled.search.id, SearchState.PAUSED)
    refused = await client.patch(f"/searches/{filled.search.id}", json={"evaluations": 3})
    assert (refused.status_code, refused.json()["title"]) == (409, "Conflict")
    assert "4 candidates already" in refused.json()["detail"]
    assert (await client.patch(f"/searches/{filled.search.id}", json={"evaluations": 4})).status_code == 200
    await store.searches.set_state(filled.search.id, SearchState.DONE)


async def test_what_has_ended_cannot_be_steered(client: httpx.AsyncClient, search: str) -> None:
    await client.post(f"/searches/{search}/stop")
    tried = [
        await client.patch(f"/searches/{search}", json={"evaluations": 400}),
        await client.post(f"/searches/{search}/pins", json={"cell": 1}),
        await client.post(f"/searches/{search}/hints", json={"text": "wider"}),
    ]
    assert [answer.status_code for answer in tried] == [409, 409, 409]
    assert all("stopped" in answer.json()["detail"] for answer in tried)


async def test_pins_come_and_go(client: httpx.AsyncClient, search: str) -> None:
    address = f"/searches/{search}/pins"
    first = await client.post(address, json={"cell": 3})
    assert first.status_code == 201
    assert (first.json()["cell"], first.json()["device"], first.json()["author"]) == (3, "model:sm_90", "local")
    assert (await client.post(address, json={"cell": 3})).json() == first.json()
    await client.post(address, json={"cell": 4})
    shown = (await client.get(address, params={"limit": 1})).json()
    rest = (await client.get(address, params={"cursor": shown["next"]})).json()
    assert [pin["cell"] for pin in shown["items"] + rest["items"]] == [3, 4]
    assert (await client.delete(f"{address}/{first.json()['id']}")).status_code == 204
    assert (await client.delete(f"{address}/{first.json()['id']}")).status_code == 404
    assert [pin["cell"] for pin in (await client.get(address)).json()["items"]] == [4]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cell": 6}, "body.cell"),
        ({"cell": 0, "device": "h200"}, "body.device"),
        ({"candidate": NOBODY}, "body.candidate"),
        ({"cell": 0, "candidate": NOBODY}, "body"),
        ({}, "body"),
    ],
)
async def test_what_cannot_be_pinned_is_said(
    client: httpx.AsyncClient, search: str, body: dict[str, object], field: str
) -> None:
    answer = await client.post(f"/searches/{search}/pins", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_a_candidate_of_another_search_cannot_be_pinned(client: httpx.AsyncClient, search: str, filled) -> None:
    answer = await client.post(f"/searches/{search}/pins", json={"candidate": filled.best})
    assert answer.status_code == 422


async def test_hints_come_and_go(client: httpx.AsyncClient, search: str, service) -> None:
    address = f"/searches/{search}/hints"
    hint = (await client.post(address, json={"text": " try wider loads "})).json()
    assert (hint["text"], hint["author"]) == ("try wider loads", "local")
    assert [kept.text for kept in await service.coordinator.store.hints.list(search)] == ["try wider loads"]
    assert (await client.delete(f"{address}/{hint['id']}")).status_code == 204
    assert (await client.get(address)).json() == {"items": [], "next": None}


async def test_hints_have_an_end(client: httpx.AsyncClient, search: str) -> None:
    for number in range(MOST_HINTS):
        assert (await client.post(f"/searches/{search}/hints", json={"text": str(number)})).status_code == 201
    answer = await client.post(f"/searches/{search}/hints", json={"text": "one more"})
    assert (answer.status_code, "may have" in answer.json()["detail"]) == (409, True)
