"""Real processes that die at random: nothing is lost, nothing counts twice, every search ends."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import chaos
from benchmarks.chaos import COORDINATORS, Scene, audit, finish, hand_over_s
from tests.postgres import find_binaries, find_unprivileged

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


async def test_where_a_coordinator_is_killed_another_goes_on(folder: Path) -> None:
    scene = Scene(folder, worker_hosts=1, pause_ms=20)
    try:
        store = await scene.open()
        took_s = await hand_over_s(scene, store, "handed", BUDGET)
        (search,) = [found.id for found in await store.searches.list()]
        await finish(store, [search], 120.0)
        verdict = await audit(store, [search], BUDGET)
        await store.close()
    finally:
        scene.close()
    assert took_s < CONTINUES_S + ROOM_S
    assert (verdict["lost"], verdict["twice"], verdict["wrong"]) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_counts_twice() -> None:
    row = asyncio.run(chaos.run(400, 1, pause_s=(2.0, 6.0), limit_s=400, hand_overs=0))
    assert row["ended"] == {"done": row["searches"]}
    assert (row["lost"], row["twice"], row["wrong"]) == (0, 0, 0)
    assert row["executions"] >= row["jobs"] >= 2 * row["candidates"] and len(COORDINATORS) == 2
