"""Real processes that die at random: nothing is lost, nothing counts twice, every search ends."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.records import SearchState
from archive.store import Store, migrate
from benchmarks import chaos
from benchmarks.chaos import COORDINATORS, ChaosCluster, audit, finish, hand_over_s
from service.evaluation.finalists import FINALISTS
from service.evaluation.jobs import FINAL
from tests.archive.samples import new_report, stored_candidate, stored_search
from tests.postgres import find_binaries, find_unprivileged
from tests.service import records

BUDGET = 30
CONTINUES_S = 10.0
"""A search that loses its coordinator goes on within this."""
ROOM_S = 5.0
"""What a machine that is busy with other tests may add."""

pytestmark = pytest.mark.skipif(
    (binaries := find_binaries()) is None or find_unprivileged(binaries) is None, reason="no PostgreSQL to be had here"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL, which runs unprivileged, can reach."""
    with tempfile.TemporaryDirectory(prefix="reef-chaos-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize("device", ["model:sm_90", "h200"])
async def test_where_a_coordinator_is_killed_another_goes_on(folder: Path, device: str) -> None:
    scene = ChaosCluster(folder, worker_hosts=1, pause_ms=20, device=device)
    try:
        store = await scene.open()
        took_s = await hand_over_s(scene, store, "handed", BUDGET)
        searches = [found.id for found in await store.searches.list()]  # One, unless it changed hands by itself.
        await finish(store, searches, 120.0)
        verdict = await audit(store, searches, BUDGET, device)
        await store.close()
    finally:
        scene.close()
    assert took_s < CONTINUES_S + ROOM_S
    assert (verdict["lost"], verdict["twice"], verdict["wrong"]) == (0, 0, 0)
    assert (verdict["results"], verdict["examined"]) == (len(searches) * BUDGET, len(searches) * FINALISTS)
    assert (verdict["confirms"] > 0) is (device == "h200")


async def test_the_audit_counts_a_second_verdict_and_a_second_examination(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    search = (await stored_search(store, devices=("model:sm_90",))).id
    candidate = await stored_candidate(store, search)
    await store.searches.set_state(search, SearchState.DONE, only_from=(SearchState.PREPARING,))
    found = []
    for kind in ("measure", FINAL, "measure", FINAL):
        document = records.report({}, kind=kind, search=search, candidate=candidate).model_dump_json()
        await store.reports.save(new_report(search, candidate, kind=kind, document=document))
        found.append(await audit(store, [search], 1))
    await store.close()
    assert [each["twice"] for each in found] == [0, 0, 1, 2]
    assert (found[-1]["results"], found[-1]["examined"]) == (2, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", ["model:sm_90", "h200"])
def test_nothing_is_lost_and_nothing_counts_twice(device: str) -> None:
    row = asyncio.run(chaos.run(400, 1, pause_s=(2.0, 6.0), limit_s=400, hand_overs=0, device=device))
    assert row["ended"] == {"done": row["searches"]}
    assert (row["lost"], row["twice"], row["wrong"]) == (0, 0, 0)
    assert row["executions"] >= row["jobs"] >= 2 * row["candidates"] and len(COORDINATORS) == 2
    ways = [row[way] > 0 for way in ("held", "confirmed", "withdrawn")]
    assert ways == [device == "h200"] * 3, "provisional holders are part of it on a card alone"
