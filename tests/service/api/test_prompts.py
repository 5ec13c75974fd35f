"""Prompts over HTTP: found, claimed, answered by one of several; backends and money shown without secrets."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from archive.records import SearchState
from service.api.prompts import holder_of
from service.llm import LlmAnswer
from service.security.identity import LOCAL
from tests.service.inquiry import PROMPT, purpose

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "0190a000-0000-7000-8000-000000000000"
Waiting = tuple["asyncio.Task[LlmAnswer]", str]
LLM = {"backends": ["manual"], "calls": 5}


@pytest_asyncio.fixture(loop_scope="module")
async def search(client: httpx.AsyncClient, service: Any) -> str:
    """A search that may ask, paused so that nobody else asks in its name."""
    body = {"operator": "rmsnorm", "emitters": ["llm", "tune"], "llm": LLM, "axes": ["num_warps"]}
    made = await client.post("/searches", json=body)
    assert made.status_code == 202, made.text
    id = str(made.json()["id"])
    await client.post(f"/searches/{id}/pause")
    return id


@pytest_asyncio.fixture(loop_scope="module")
async def waiting(client: httpx.AsyncClient, service: Any, search: str) -> AsyncIterator[Waiting]:
    """A question under way, and the id of its prompt."""
    llm_gateway = service.coordinator.llm_gateway
    call = asyncio.create_task(llm_gateway(PROMPT, purpose(search, 7, cell=3), "manual"))
    while not (found := (await client.get("/prompts", params={"search": search, "state": "waiting"})).json()["items"]):
        await asyncio.sleep(0.01)
    yield call, str(found[0]["id"])
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_prompt_is_found_claimed_and_answered(client: httpx.AsyncClient, waiting: Any, search: str) -> None:
    call, id = waiting
    (shown,) = (await client.get("/prompts", params={"search": search})).json()["items"]
    assert (shown["id"], shown["state"], shown["cell"], shown["claims"]) == (id, "waiting", 3, {"time": "job-1"})
    assert "user" not in shown
    whole = (await client.get(f"/prompts/{id}")).json()
    assert (whole["system"], whole["user"], whole["text"]) == (PROMPT.system, PROMPT.user, None)
    claimed = (await client.post(f"/prompts/{id}/claim", json={"answerer": "ada", "lease_s": 60})).json()
    assert (claimed["state"], claimed["claimed_by"]) == ("claimed", "local/ada")
    renewed = (await client.post(f"/prompts/{id}/renew", json={"answerer": "ada", "lease_s": 600})).json()
    assert renewed["lease_until"] > claimed["lease_until"]
    body = {"answerer": "ada", "text": "```python\n```", "model": "hand", "input_tokens": 3, "output_tokens": 4}
    answered = await client.post(f"/prompts/{id}/answer", json=body)
    assert (answered.status_code, answered.json()["state"]) == (200, "answered")
    assert (await client.post(f"/prompts/{id}/answer", json=body)).status_code == 200, "the same again is fine"
    assert (await call).completion.text == "```python\n```"
    spent = (await client.get(f"/searches/{search}/spending")).json()
    assert [(row["backend"], row["calls"], row["tokens"]) for row in spent["budgets"]] == [
        ("", 1, 7),
        ("manual", 1, 7),
    ]
    assert (spent["budgets"][0]["calls_limit"], spent["budgets"][0]["unpriced"]) == (5, 1)
    assert [(row["backend"], row["strategy"], row["calls"]) for row in spent["strategies"]] == [
        ("manual", "improve", 1)
    ]


async def test_of_several_answerers_one_holds_it(client: httpx.AsyncClient, waiting: Any) -> None:
    _, id = waiting
    await client.post(f"/prompts/{id}/claim", json={"answerer": "ada"})
    for path, body in (("claim", {"answerer": "bob"}), ("answer", {"text": "mine"}), ("release", {}), ("renew", {})):
        refused = await client.post(f"/prompts/{id}/{path}", json=body)
        assert (refused.status_code, refused.headers["content-type"]) == (409, "application/problem+json")
        assert "claimed by 'local/ada'" in refused.json()["detail"]
    released = (await client.post(f"/prompts/{id}/release", json={"answerer": "ada"})).json()
    assert (released["state"], released["claimed_by"]) == ("waiting", None)
    assert (await client.post(f"/prompts/{id}/claim", json={"answerer": "bob"})).status_code == 200


async def test_a_stop_withdraws_what_waits(client: httpx.AsyncClient, waiting: Any, search: str) -> None:
    _, id = waiting
    await client.post(f"/searches/{search}/stop")
    assert (await client.get(f"/prompts/{id}")).json()["state"] == "failed"
    assert (await client.post(f"/prompts/{id}/claim", json={})).status_code == 409


async def test_prompts_are_paged_and_those_that_wait_come_oldest_first(
    client: httpx.AsyncClient, service: Any, search: str
) -> None:
    llm_gateway = service.coordinator.llm_gateway
    calls = [asyncio.create_task(llm_gateway(PROMPT, purpose(search, number), "manual")) for number in range(5)]
    while len((await client.get("/prompts", params={"search": search})).json()["items"]) < 5:
        await asyncio.sleep(0.01)
    for state, backwards in (("waiting", False), (None, True)):
        found: list[str] = []
        query: dict[str, Any] = {"search": search, "limit": 2, **({"state": state} if state else {})}
        while True:
            answer = (await client.get("/prompts", params=query)).json()
            found += [item["id"] for item in answer["items"]]
            if answer["next"] is None:
                break
            query["cursor"] = answer["next"]
        assert found == sorted(found, reverse=backwards)
        assert len(found) == 5
    await llm_gateway.manual.withdraw(search)
    await asyncio.gather(*calls, return_exceptions=True)


async def test_what_cannot_be_right_is_refused(client: httpx.AsyncClient, waiting: Any) -> None:
    _, id = waiting
    assert (await client.get(f"/prompts/{NOBODY}")).status_code == 404
    assert (await client.post(f"/prompts/{NOBODY}/claim", json={})).status_code == 404
    assert (await client.get("/prompts", params={"state": "lost"})).status_code == 422
    assert (await client.get("/prompts", params={"cursor": "x"})).status_code == 422
    assert (await client.post(f"/prompts/{id}/answer", json={})).status_code == 422
    assert (await client.post("/backends/nobody/enable")).status_code == 404
    assert (await client.post("/backends/NO BODY/enable")).status_code == 404


async def test_backends_are_shown_without_addresses(client: httpx.AsyncClient) -> None:
    (shown,) = (await client.get("/backends")).json()["items"]
    assert (shown["name"], shown["kind"], shown["waits"], shown["disabled_reason"], shown["price"]) == (
        "manual",
        "manual",
        True,
        None,
        None,
    )
    assert "base_url" not in shown
    assert (await client.post("/backends/manual/enable")).json()["disabled_reason"] is None


@pytest.mark.parametrize(
    "llm, field",
    [
        (None, "body.llm"),
        ({"backends": ["nobody"]}, "body.llm.backends"),
        ({"backends": ["manual"], "usd": 1.0}, "body.llm.usd"),
        ({"backends": ["manual"], "strategies": ["guess"]}, "body.llm.strategies"),
    ],
)
async def test_terms_that_cannot_be_kept_are_refused(client: httpx.AsyncClient, llm: Any, field: str) -> None:
    refused = await client.post("/searches", json={"operator": "rmsnorm", "emitters": ["llm"], "llm": llm})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == field


EVERY = {"backends": [], "agents": [], "strategies": [], "calls": None, "tokens": None, "usd": None}


async def test_what_a_search_may_ask_is_kept(service: Any, search: str) -> None:
    kept = await service.coordinator.store.searches.get(search)
    assert kept.llm == {**EVERY, "backends": ["manual"], "calls": 5}
    assert kept.state is SearchState.PAUSED


async def test_answerers_of_one_token_are_told_apart() -> None:
    assert (holder_of(LOCAL, None), holder_of(LOCAL, "ada")) == ("local", "local/ada")


@pytest.mark.parametrize("search", ["%00", "nothing", "0190A000-0000-7000-8000-000000000000"])
async def test_prompts_of_what_can_be_no_search_are_bad_input(service, search: str) -> None:
    assert (await service.client.get(f"/prompts?search={search}")).status_code == 422
