"""What a model may look up, and have judged."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import CandidateRecord
from service.generation.archive_tools import ArchiveTools, CandidateSubmission
from service.generation.proposals import Proposer
from tests.service import records
from tests.service.asked import SEED, Asked
from tests.service.generation.test_supply import longer


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url)
    yield asked
    await asked.close()


def tools(asked: Asked, search: object, handed: list[CandidateRecord]) -> ArchiveTools:
    store = asked.bench.store
    clerk = CandidateSubmission("llm", iter(range(100, 200)).__next__, handed.append)
    return ArchiveTools(store, Proposer(store), search, records.OPERATOR, records.DEVICE, clerk)  # type: ignore[arg-type]


async def test_elites_come_best_first_and_any_candidate_can_be_read(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=4), longer)
    found = tools(asked, search, [])
    elites = await found.elites()
    assert [kernel.objective for kernel in elites] == sorted((kernel.objective or 0 for kernel in elites), reverse=True)
    assert elites[0].ordinal is not None
    read = await found.find(elites[0].ordinal)
    assert read is not None and read.source == elites[0].source and read.place == elites[0].place
    assert await found.find(999) is None


async def test_a_known_source_has_its_verdict_already(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=2), longer)
    handed: list[CandidateRecord] = []
    judged = await tools(asked, search, handed).judge(SEED + "# a comment\n", (), "again")
    assert judged is not None and judged.outcome == "correct" and handed == []


async def test_a_spent_search_judges_no_more(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=2), longer)
    assert await tools(asked, search, []).judge("x = 1\n", (), "new") is None


async def test_a_new_source_becomes_a_candidate_and_its_verdict_is_waited_for(asked: Asked) -> None:
    search = await asked.begin(evaluations=9)
    while not await asked.waiting(search):
        search = await asked.step(search)
    handed: list[CandidateRecord] = []
    judging = asyncio.create_task(tools(asked, search, handed).judge(SEED + "MORE = 1\n", (), "draft"))
    while not handed:
        await asyncio.sleep(0.01)
    assert (handed[0].ordinal, handed[0].emitter, handed[0].note) == (100, "llm", "draft") and not judging.done()
    await asked.bench.store.candidates.judge(handed[0].id, "hang", "it never ended", 4, None)
    judged = await judging
    assert judged is not None and (judged.outcome, judged.reason, judged.line) == ("hang", "it never ended", 4)
