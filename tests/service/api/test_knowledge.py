"""Knowledge over HTTP: listed, shown, edited, handed in and learned; and the steps of a search, line by line."""

import json

import httpx
import pytest
import pytest_asyncio

from archive.records import NewKnowledgeEntry
from service.analysis.trajectories import Trajectory

pytestmark = pytest.mark.asyncio(loop_scope="module")

BY_HAND = {
    "move": "one pass",
    "traits": ["reduction"],
    "bottleneck": "memory",
    "device": "model:sm_90",
    "sentence": "Read it once.",
}
ID = NewKnowledgeEntry("one pass", ("reduction",), "memory", "model:sm_90", "").id


@pytest_asyncio.fixture(loop_scope="module")
async def entry(client: httpx.AsyncClient) -> str:
    answer = await client.post("/knowledge", json={"entries": [BY_HAND]})
    assert (answer.status_code, answer.json()) == (201, {"entries": 1})
    return ID


async def test_entries_are_listed_by_pages(client: httpx.AsyncClient, entry: str) -> None:
    second = {**BY_HAND, "move": "two passes"}
    await client.post("/knowledge", json={"entries": [second]})
    first = (await client.get("/knowledge", params={"limit": 1})).json()
    rest = (await client.get("/knowledge", params={"limit": 1, "cursor": first["next"]})).json()
    assert {first["items"][0]["move"], rest["items"][0]["move"]} == {"one pass", "two passes"}
    assert (await client.get("/knowledge", params={"cursor": "x"})).status_code == 422


async def test_an_entry_is_shown_and_edited(client: httpx.AsyncClient, entry: str) -> None:
    shown = (await client.get(f"/knowledge/{entry}")).json()
    assert (shown["sentence"], shown["provenance"], shown["gain"]) == ("Read it once.", "predicted", None)
    edited = await client.patch(f"/knowledge/{entry}", json={"sentence": "Once.", "state": "retired"})
    assert {name: edited.json()[name] for name in ("sentence", "state", "held")} == {
        "sentence": "Once.",
        "state": "retired",
        "held": True,
    }
    retired = (await client.get("/knowledge", params={"state": "retired"})).json()["items"]
    assert [item["id"] for item in retired] == [entry]


@pytest.mark.parametrize("body", [{}, {"sentence": "x" * 401}, {"state": "gone"}, {"move": "other"}])
async def test_a_change_that_cannot_be_is_refused(client: httpx.AsyncClient, entry: str, body: object) -> None:
    assert (await client.patch(f"/knowledge/{entry}", json=body)).status_code == 422


async def test_what_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"/knowledge/{'0' * 24}")).status_code == 404
    assert (await client.patch(f"/knowledge/{'0' * 24}", json={"state": "retired"})).status_code == 404


async def test_a_search_that_ended_teaches_on_request(client: httpx.AsyncClient, filled) -> None:
    for _ in range(2):
        answer = await client.post(f"/searches/{filled.search.id}/knowledge")
        assert (answer.status_code, answer.json()) == (200, {"entries": 0})


async def test_steps_come_line_by_line(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/trajectories"
    answer = await client.get(address)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    records = [Trajectory.model_validate(json.loads(line)) for line in answer.text.splitlines()]
    assert [(record.step, record.device) for record in records if record.outcome == "compile_error"] == [
        (2, "model:sm_90"),
        (2, "model:sm_80"),
    ]
    assert len({record.candidate for record in records}) == 3
    rewarded = (await client.get(address, params={"rewards": "true"})).text.splitlines()
    assert all(json.loads(line)["reward"] is not None for line in rewarded)
    assert (await client.get(address, params={"filter": "gains"})).text == ""
    assert (await client.get(address, params={"filter": "some"})).status_code == 422
