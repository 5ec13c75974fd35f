"""Submissions of agents: stored by the tick alone, within every budget, however many come at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchRecord, SearchState
from service.errors import Conflict, RateLimited, ServiceError, Unavailable
from service.generation import submissions
from service.requests import KernelSubmission
from service.security.scopes import SearchGrant
from tests.service import records
from tests.service.asked import SEED, Asked

RUN = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4"


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url, in_flight=4)
    yield asked
    await asked.close()


def kernel(number: int) -> KernelSubmission:
    return KernelSubmission(source=f"{SEED}\nNUMBER = {number}\n", note=f"number {number}")


async def running(asked: Asked, **changes: object) -> SearchRecord:
    """A search that waits for candidates of agents."""
    search = await asked.begin(emitters=("agent",), **{"llm": None, "evaluations": 4, **changes})
    for _ in range(100):
        search = await asked.step(search)
        if search.state is SearchState.RUNNING:
            return search
    raise AssertionError(search.state)


async def answered(asked: Asked, search: SearchRecord, waiting: list[asyncio.Task]) -> list[object]:
    """Tick until all have an answer; refusals are answers."""
    for _ in range(200):
        await asked.step(search)
        if all(task.done() for task in waiting):
            return await asyncio.gather(*waiting, return_exceptions=True)
    raise AssertionError("some submissions got no answer")


async def submit(asked: Asked, search: SearchRecord, *numbers: int, grant: SearchGrant | None = None) -> list[object]:
    intake = asked.bench.evolution.intake
    waiting = [asyncio.create_task(intake.submit(search, kernel(number), grant)) for number in numbers]
    return await answered(asked, search, waiting)


async def test_a_search_without_other_emitters_waits_for_kernels(asked: Asked) -> None:
    search = await running(asked)
    for _ in range(10):
        search = await asked.step(search)
    assert search.state is SearchState.RUNNING
    (kept,) = await submit(asked, search, 1)
    for _ in range(20):
        await asked.step(search)
    found = await asked.bench.store.candidates.get(kept.id)
    assert (found.emitter, found.note, found.outcome) == ("agent", "number 1", "correct")


async def test_a_hundred_at_once_never_exceed_the_evaluations(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "ACCEPT_S", 3.0)
    search = await running(asked, evaluations=4)
    said = await submit(asked, search, *range(100))
    kept = [each for each in said if not isinstance(each, Exception)]
    assert len(kept) == 3, "one evaluation was the seed's"
    assert all(isinstance(each, Conflict | RateLimited | Unavailable) for each in said if each not in kept)
    stored = await asked.bench.store.candidates.list(search.id)
    assert len(stored) == 4 and len({each.ordinal for each in stored}) == 4


async def test_an_equal_source_is_the_candidate_that_there_is(asked: Asked) -> None:
    search = await running(asked, evaluations=3)
    (first,) = await submit(asked, search, 1)
    again = await submit(asked, search, 1, 1, 1)
    assert {each.id for each in again} == {first.id}
    assert (await asked.bench.store.candidates.count(search.id)).candidates == 2


async def test_an_agent_has_its_own_number_of_evaluations(asked: Asked) -> None:
    search = await running(asked, evaluations=20)
    grant = SearchGrant(search.id, RUN, 2)
    said = await submit(asked, search, 1, 2, 3, 4, grant=grant)
    kept = [each for each in said if not isinstance(each, ServiceError)]
    assert len(kept) == 2 and {each.exchange for each in kept} == {RUN}
    assert {each.detail for each in said if isinstance(each, ServiceError)} == {"this agent has used its 2 evaluations"}


async def test_what_runs_no_more_refuses_at_once(asked: Asked) -> None:
    search = await running(asked)
    waiting = asyncio.create_task(asked.bench.evolution.intake.submit(search, kernel(1)))
    await asyncio.sleep(0)
    await asked.bench.store.searches.set_state(search.id, SearchState.STOPPED)
    (said,) = await answered(asked, search, [waiting])
    assert isinstance(said, Unavailable)
    assert len(await asked.bench.store.candidates.list(search.id)) == 1
