"""The steps of a search over HTTP, line by line."""

import json

import httpx
import pytest

from service.analysis.trajectories import Trajectory

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
