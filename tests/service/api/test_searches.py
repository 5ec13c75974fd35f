"""Searches over HTTP: submit, list by pages, show, steer; and what is said of a request that cannot be right."""

from typing import get_args

import httpx
import pytest

from archive.records import SEARCH_SORTS
from service.api.searches import SearchSort
from service.app import MAX_BODY_BYTES
from service.requests import SearchRequest
from service.security.scopes import Scope
from tests.service import records
from tests.service.api.guarding import bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = records.OPERATOR.model_dump(mode="json")


async def submit(client: httpx.AsyncClient, **body: object) -> dict[str, object]:
    answer = await client.post("/searches", json={"operator": "rmsnorm", **body})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def test_a_submitted_search_has_an_address(client: httpx.AsyncClient) -> None:
    answer = await client.post("/searches", json={"operator": "rmsnorm", "evaluations": 20, "seed": 5})
    assert answer.status_code == 202
    search = answer.json()
    assert answer.headers["location"] == f"/api/v1/searches/{search['id']}"
    assert (search["operator"], search["state"], search["evaluations"], search["seed"]) == (
        "rmsnorm",
        "preparing",
        20,
        5,
    )
    assert search["devices"] == ["model:sm_90"]
    assert search["created_at"].endswith("Z")
    shown = (await client.get(f"/searches/{search['id']}")).json()
    assert {**shown, "updated_at": ""} == {**search, "updated_at": ""}


async def test_an_operator_may_come_inline(client: httpx.AsyncClient) -> None:
    search = await submit(client, operator=SPEC, axes=["num_warps"], emitters=["tune"])
    assert (search["operator"], search["operator_digest"]) == ("double", records.OPERATOR.digest)
    assert search["axes"] == ["num_warps"]


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "body.operator", "is missing"),
        ({"operator": "rmsnrom"}, "body.operator", "rmsnorm"),
        ({"operator": 3}, "body.operator", "catalogue name"),
        ({"operator": {**SPEC, "entry": "triple"}}, "body.reference", "triple"),
        ({"operator": "rmsnorm", "devices": []}, "body.devices", "at least 1"),
        ({"operator": "rmsnorm", "devices": ["gpu"]}, "body.devices", "gpu"),
        ({"operator": "rmsnorm", "devices": ["model:sm_80", "model:sm_90"]}, "body.devices", "one target"),
        ({"operator": "rmsnorm", "emitters": ["luck"]}, "body.emitters", "tune"),
        ({"operator": "rmsnorm", "axes": ["colour"]}, "body.axes", "num_warps"),
        ({"operator": "rmsnorm", "evaluations": 0}, "body.evaluations", "must be 1 or more"),
        ({"operator": "rmsnorm", "seed": -1}, "body.seed", "must be 0 or more"),
        ({"operator": "rmsnorm", "bugdet": 3}, "body.bugdet", "unknown name"),
    ],
)
async def test_a_request_that_cannot_be_right_says_where(
    client: httpx.AsyncClient, body: dict[str, object], field: str, said: str
) -> None:
    answer = await client.post("/searches", json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert [error["field"] for error in problem["errors"]] == [field]
    assert said in problem["errors"][0]["detail"]
    assert problem["type"] == "urn:kernelreef:problem:bad-input"


async def test_pages_follow_each_other_newest_first(client: httpx.AsyncClient) -> None:
    ids = [(await submit(client))["id"] for _ in range(3)]
    first = (await client.get("/searches", params={"limit": 2})).json()
    assert [search["id"] for search in first["items"]] == ids[:0:-1]
    await submit(client)  # what is added meanwhile shifts nothing
    rest = (await client.get("/searches", params={"limit": 200, "cursor": first["next"]})).json()
    assert rest["items"][0]["id"] == ids[0]
    assert rest["next"] is None


async def test_searches_can_be_asked_for_by_state(client: httpx.AsyncClient) -> None:
    search = await submit(client)
    await client.post(f"/searches/{search['id']}/stop")
    found = (await client.get("/searches", params={"state": ["stopped", "failed"], "limit": 200})).json()["items"]
    assert search["id"] in [each["id"] for each in found]
    assert {each["state"] for each in found} <= {"stopped", "failed"}


async def test_a_search_pauses_resumes_and_stops(client: httpx.AsyncClient) -> None:
    address = f"/searches/{(await submit(client))['id']}"
    states = [(await client.post(f"{address}/{move}")).json()["state"] for move in ("pause", "resume", "stop")]
    assert states == ["paused", "preparing", "stopped"]
    assert (await client.get(address)).json()["state"] == "stopped"


async def test_a_move_that_the_state_does_not_allow_is_a_conflict(client: httpx.AsyncClient) -> None:
    address = f"/searches/{(await submit(client))['id']}"
    await client.post(f"{address}/stop")
    for move in ("pause", "resume", "stop"):
        answer = await client.post(f"{address}/{move}")
        assert answer.status_code == 409
        assert "stopped" in answer.json()["detail"]


@pytest.mark.parametrize(
    "id", ["0190a000-0000-7000-8000-000000000000", "nonsense", "%00", "0190A000-0000-7000-8000-000000000000"]
)
@pytest.mark.parametrize(("method", "tail"), [("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/stop")])
async def test_an_unknown_search_is_not_found(client: httpx.AsyncClient, id: str, method: str, tail: str) -> None:
    answer = await client.request(method, f"/searches/{id}{tail}")
    assert (answer.status_code, answer.json()["title"]) == (404, "Not found")


async def test_the_request_in_the_documentation_is_one(client: httpx.AsyncClient) -> None:
    for example in SearchRequest.model_json_schema()["examples"]:
        assert (await client.post("/searches", json=example)).status_code == 202


async def test_a_body_that_is_too_large_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/searches", json={"operator": "x" * MAX_BODY_BYTES})
    assert (answer.status_code, answer.json()["title"]) == (413, "Too large")


async def test_a_form_is_no_search(client: httpx.AsyncClient) -> None:
    # What a page of another site could send without asking is not read as JSON.
    answer = await client.post("/searches", content=b'{"operator": "rmsnorm"}', headers={"content-type": "text/plain"})
    assert answer.status_code == 422


async def test_searches_can_be_asked_for_by_operator(client: httpx.AsyncClient) -> None:
    await submit(client, operator=SPEC)
    found = (await client.get("/searches", params={"operator": "double", "limit": 200})).json()["items"]
    assert found and {each["operator"] for each in found} == {"double"}
    assert (await client.get("/searches", params={"operator": "%00"})).status_code == 422


async def test_searches_have_names_tags_and_notes_at_any_time(client: httpx.AsyncClient) -> None:
    search = await submit(client, name=" first run ", tags=["paper", "h100", "paper"], notes="as in table 2")
    assert (search["name"], search["tags"], search["notes"]) == ("first run", ["paper", "h100"], "as in table 2")
    address = f"/searches/{search['id']}"
    await client.post(f"{address}/stop")
    changed = (await client.patch(address, json={"name": "second", "tags": []})).json()
    assert (changed["name"], changed["tags"], changed["notes"]) == ("second", [], "as in table 2")
    assert (await client.get(address)).json() == changed
    for wrong in (
        {"tags": ["two words"]},
        {"tags": ["a,b"]},
        {"tags": [""]},
        {"name": "a\nb"},
        {"notes": "x" * 4001},
        {},
    ):
        assert (await client.patch(address, json=wrong)).status_code == 422, wrong


async def test_a_change_that_is_refused_changes_no_label(client: httpx.AsyncClient) -> None:
    search = await submit(client, name="kept")
    address = f"/searches/{search['id']}"
    await client.post(f"{address}/stop")
    assert (await client.patch(address, json={"name": "lost", "priority": 9})).status_code == 409
    assert (await client.get(address)).json()["name"] == "kept"


async def test_searches_are_found_by_what_they_are_called(client: httpx.AsyncClient) -> None:
    first = await submit(client, name="Alpha 1", tags=["t1", "t2"], devices=["model:sm_80"])
    second = await submit(client, name="beta", notes="after alpha", tags=["t1"], devices=["model:sm_80"])
    for query, found in (
        ({"text": "ALPHA"}, [second, first]),
        ({"tag": "t1"}, [second, first]),
        ({"tag": ["t1", "t2"]}, [first]),
        ({"tag": "t1", "device": "model:sm_90"}, []),
        ({"tag": "t1", "owner": ""}, [second, first]),
        ({"tag": "t1", "owner": "0190a000-0000-7000-8000-000000000000"}, []),
        ({"tag": "t1", "sort": "name"}, [first, second]),
        ({"tag": "t1", "sort": "created"}, [first, second]),
        ({"tag": "t1", "sort": "-best"}, [second, first]),
    ):
        listed = (await client.get("/searches", params=query)).json()
        assert [each["id"] for each in listed["items"]] == [each["id"] for each in found], query


async def test_a_cursor_belongs_to_one_order(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit(client)
    first = (await client.get("/searches", params={"sort": "name", "limit": 1})).json()
    second = await client.get("/searches", params={"sort": "name", "limit": 1, "cursor": first["next"]})
    assert second.json()["items"][0]["id"] != first["items"][0]["id"]
    other = await client.get("/searches", params={"sort": "-name", "cursor": first["next"]})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "query.cursor")
    assert "sorted by 'name'" in other.json()["detail"]
    assert (await client.get("/searches", params={"sort": "age"})).status_code == 422


async def test_every_order_can_be_asked_for() -> None:
    assert set(get_args(SearchSort)) == {sign + name for name in SEARCH_SORTS for sign in ("", "-")}


async def test_an_ended_search_is_deleted(client: httpx.AsyncClient) -> None:
    address = f"/searches/{(await submit(client))['id']}"
    refused = await client.delete(address)
    assert (refused.status_code, "stop it" in refused.json()["detail"]) == (409, True)
    await client.post(f"{address}/stop")
    assert (await client.delete(address)).status_code == 204
    assert (await client.get(address)).status_code == (await client.delete(address)).status_code == 404
    entries = (await client.get("/audit", params={"limit": 5})).json()["items"]
    assert ["DELETE", 204] in [[entry["action"].split()[0], entry["status"]] for entry in entries]


async def test_only_an_admin_admits_an_operator_that_mutation_testing_fails(service) -> None:
    body = {"operator": "rmsnorm", "admit": True}
    submits = await bearer(service.coordinator.store, {Scope.SUBMIT})
    admin = await bearer(service.coordinator.store, {Scope.SUBMIT, Scope.ADMIN})
    async with guarded(service.coordinator) as client:
        refused = await client.post("/api/v1/searches", json=body, headers=submits)
        assert (refused.status_code, "'admin'" in refused.json()["detail"]) == (403, True)
        search = (await client.post("/api/v1/searches", json=body, headers=admin)).json()
    assert (search["admit"], search["admitted"]) == (True, "")


async def test_a_search_asks_for_a_compiler(client: httpx.AsyncClient) -> None:
    asked = await client.post("/searches", json={"operator": "rmsnorm", "compiler": "3.9"})
    assert asked.json()["compiler"] == "3.9"
    address = f"/searches/{asked.json()['id']}"
    assert (await client.get(address)).json()["compiler"] == "3.9"
    for wrong in ("3.9.0", "newest", "3"):
        refused = await client.post("/searches", json={"operator": "rmsnorm", "compiler": wrong})
        assert refused.status_code == 422
