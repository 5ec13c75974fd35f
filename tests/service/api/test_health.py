"""Probes and metrics: alive is not ready, and gauges show what is there."""

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api import SOFTWARE_VERSION
from service.operators.catalogue import load_operator
from workers.protocol import PROTOCOL_VERSION

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "http://127.0.0.1"
REFERENCES = ("reef_jobs", "sm_90:reserved-trace")
"""Jobs that export references, which only trusted workers get."""


async def gauges(client: httpx.AsyncClient) -> dict[tuple[str, str], float]:
    """Every sample by its name and its one label, if it has any."""
    answer = await client.get(f"{ROOT}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_a_running_service_is_alive_and_ready(client: httpx.AsyncClient) -> None:
    for probe in ("/healthz", "/readyz"):
        answer = await client.get(ROOT + probe)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_gauges_follow_what_happens(client: httpx.AsyncClient, filled) -> None:
    async with asyncio.timeout(30):
        # The service may have come by the archive's search while it was being filled; it lets go of its job then.
        while REFERENCES in (before := await gauges(client)):
            await asyncio.sleep(0.05)
    assert before["reef_workers", ""] == 0
    assert before["reef_searches", "preparing"] == 0
    search = (await client.post("/searches", json={"operator": "rmsnorm"})).json()["id"]
    async with asyncio.timeout(30):  # The job is sent a moment after the search is stored.
        while REFERENCES not in (running := await gauges(client)):
            await asyncio.sleep(0.05)
    assert running["reef_searches", "preparing"] == 1
    seeds = len(load_operator("rmsnorm").seeds)
    assert 1 <= running[REFERENCES] <= 2 + seeds, "the reference, the test of the operator's checks, and the seeds"
    left = running["reef_evaluations_left", ""] - before["reef_evaluations_left", ""]
    assert 200 - seeds <= left <= 200, "seeds are traced while the reference is exported"
    assert (running["reef_leases", ""], running["reef_models_usd", ""]) == (0, 0)
    assert 0 <= running["reef_job_age_seconds", REFERENCES[1]] < 60
    await client.post(f"/searches/{search}/pause")
    paused = await gauges(client)
    assert (paused["reef_searches", "preparing"], paused["reef_searches", "paused"]) == (0, 1)
    assert paused["reef_events", ""] > before["reef_events", ""]
    # Ended searches count for nothing, so that a scrape does not grow with history.
    assert before["reef_candidates_in_flight", ""] == 0
    assert filled.search.state == "done"


async def test_without_a_database_the_service_is_alive_but_not_ready(service, client: httpx.AsyncClient) -> None:
    await service.coordinator.store.close()
    database = service.coordinator.settings.data_dir / "reef.db"
    away = database.rename(database.with_suffix(".away"))
    database.mkdir()
    assert (await client.get(f"{ROOT}/healthz")).status_code == 200
    answer = await client.get(f"{ROOT}/readyz")
    assert (answer.status_code, answer.json()["title"]) == (503, "Unavailable")
    database.rmdir()
    away.rename(database)
    assert (await client.get(f"{ROOT}/readyz")).status_code == 200, "it comes back by itself"


async def test_the_versions_are_told(client: httpx.AsyncClient, service) -> None:
    told = (await client.get(f"{ROOT}/version")).json()
    assert told == {"version": SOFTWARE_VERSION, "api": "v1", "protocol_version": PROTOCOL_VERSION}
    assert service.app.openapi()["info"]["version"] == SOFTWARE_VERSION
