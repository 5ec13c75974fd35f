"""Quick checks: an answer from a worker, nothing in the archive, and no more at once than a search may have."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from archive.records import SearchRecord, SearchState
from service.api.builders import source_check_of
from service.errors import RateLimited
from service.evaluation.source_checks import MOST_AT_ONCE
from tests.service import records
from tests.service.asked import SEED, Asked
from workers.targets import TARGETS


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url)
    yield asked
    await asked.close()


async def running(asked: Asked) -> SearchRecord:
    search = await asked.begin(emitters=("agent",), llm=None)
    for _ in range(100):
        search = await asked.step(search)
        if search.state is SearchState.RUNNING:
            return search
    raise AssertionError(search.state)


async def checked(asked: Asked, search: SearchRecord, *sources: str) -> list[object]:
    check = asked.bench.evolution.intake.check
    waiting = [asyncio.create_task(check(search, records.OPERATOR, source)) for source in sources]
    for _ in range(100):
        await asked.step(search)
        if all(task.done() for task in waiting):
            break
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_check_says_what_a_source_becomes_and_stores_nothing(asked: Asked) -> None:
    search = await running(asked)
    before = await asked.bench.store.candidates.count(search.id)
    (report,) = await checked(asked, search, f"{SEED}\nOTHER = 1\n")
    assert report.outcome == "correct" and report.variants and report.variants[0].readings
    shown = source_check_of(report, search)
    assert [each.shape for each in shown.predicted] == ["N=1024", "N=4096"]
    sheet = TARGETS["sm_90"]
    for each, read in zip(shown.predicted, report.variants[0].readings[1:], strict=True):
        assert each.memory_floor_us == pytest.approx(read.bytes_required / sheet.dram_bytes_per_s * 1e6)
        assert each.predicted_us is None and each.reason, "these workers do not predict"
    after = await asked.bench.store.candidates.count(search.id)
    assert replace(after, running_ms=before.running_ms, starting_ms=before.starting_ms) == before
    assert len(await asked.bench.store.candidates.list(search.id)) == 1


async def test_more_than_a_few_at_once_are_asked_to_come_again(asked: Asked) -> None:
    search = await running(asked)
    said = await checked(asked, search, *(f"{SEED}\nOTHER = {number}\n" for number in range(30)))
    assert sum(not isinstance(each, Exception) for each in said) == MOST_AT_ONCE
    assert all(isinstance(each, RateLimited) for each in said if isinstance(each, Exception))
    (again,) = await checked(asked, search, f"{SEED}\nOTHER = 99\n")
    assert again.outcome == "correct"
