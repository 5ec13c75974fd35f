"""The intake refuses what no search can use, before anything waits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from uuid6 import uuid7

from archive.records import SearchState
from service.errors import Conflict, InvalidInput, Unavailable
from service.requests import KernelSubmission
from tests.service import records
from tests.service.asked import SEED, Asked
from workers.protocol import MAX_SOURCE_BYTES

OTHER = f"{SEED}\nOTHER = 1\n"


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url)
    yield asked
    await asked.close()


async def test_a_search_takes_kernels_only_if_it_says_so_and_runs(asked: Asked) -> None:
    intake, store = asked.bench.evolution.intake, asked.bench.store
    closed = await asked.begin(id=str(uuid7()), emitters=("tune",), llm=None)
    with pytest.raises(Conflict, match="without the emitter 'agent'"):
        await intake.submit(closed, KernelSubmission(source=OTHER))
    search = await asked.begin(emitters=("agent",), llm=None)
    with pytest.raises(Unavailable, match="prepared"):
        await intake.submit(search, KernelSubmission(source=OTHER))
    with pytest.raises(Unavailable, match="prepared"):
        await intake.check(search, records.OPERATOR, OTHER)
    paused = await store.searches.set_state(search.id, SearchState.PAUSED)
    with pytest.raises(Conflict, match="paused"):
        await intake.submit(paused, KernelSubmission(source=OTHER))


async def test_parents_are_candidates_of_the_same_search(asked: Asked) -> None:
    intake, store = asked.bench.evolution.intake, asked.bench.store
    search, other = [await asked.begin(id=str(uuid7()), emitters=("agent",), llm=None) for _ in range(2)]
    for _ in range(100):
        search, other = await asked.step(search), await asked.step(other)
        if search.state is other.state is SearchState.RUNNING:
            break
    (stranger,) = await store.candidates.list(other.id)
    for parent in (stranger.id, "0190a000-0000-7000-8000-000000000000", "abcdef"):
        with pytest.raises(InvalidInput, match="no candidate of this search"):
            await intake.submit(search, KernelSubmission(source=OTHER, parents=(parent,)))


async def test_a_source_is_no_longer_than_a_job_takes(asked: Asked) -> None:
    search = await asked.begin(emitters=("agent",), llm=None)
    long = "é" * (MAX_SOURCE_BYTES - 10)
    with pytest.raises(InvalidInput, match="more than"):
        await asked.bench.evolution.intake.submit(search, KernelSubmission(source=long))
    with pytest.raises(InvalidInput, match="more than"):
        await asked.bench.evolution.intake.check(search, records.OPERATOR, long)
