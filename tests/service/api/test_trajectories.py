"""The steps of a search over HTTP, line by line."""

import json

import httpx
import pytest

from service.analysis.trajectories import Trajectory
from tests.service.api.conftest import fill

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


async def test_a_step_between_any_two_candidates_has_a_reward(client: httpx.AsyncClient, filled) -> None:
    async def reward(candidate: str, **query: str) -> httpx.Response:
        return await client.get(f"/candidates/{candidate}/reward", params=query)

    failed = (await reward(filled.failed)).json()
    assert (failed["outcome"], failed["reward"], failed["gain"], failed["over"]) == ("compile_error", -1.0, None, None)
    same = (await reward(filled.best, over=filled.best)).json()
    assert (same["reward"], same["gain"]["mid"], same["provenance"]) == (0.0, 1.0, "predicted")
    forth = (await reward(filled.best, over=filled.first)).json()
    back = (await reward(filled.first, over=filled.best)).json()
    assert forth["gain"]["mid"] == pytest.approx(1 / back["gain"]["mid"])
    assert (await reward(filled.best, over=filled.failed)).json()["reward"] is None, "no gain over a wrong kernel"
    waiting = await reward(filled.queued)
    assert waiting.status_code == 409 and "no verdict yet" in waiting.json()["detail"]
    assert (await reward(filled.best, device="h100")).status_code == 422
    assert (await reward(filled.best, over="0190a000-0000-7000-8000-000000000000")).status_code == 404


async def test_a_candidate_of_another_search_is_no_start_of_a_step(client: httpx.AsyncClient, service, filled) -> None:
    other = await fill(service.coordinator.store)
    answer = await client.get(f"/candidates/{filled.best}/reward", params={"over": other.best})
    assert answer.status_code == 422 and "no candidate of this search" in answer.json()["detail"]
