"""Drafts are planted once, after the operator's seeds, whatever gets lost on the way."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SEED_EMITTER, SearchState
from service.evaluation.jobs import draft_id
from service.generation.drafts import draft_emitter
from tests.service import records
from tests.service.records import TUNABLE
from tests.service.workbench import Answers, Workbench
from workers.protocol import Job, TraceJob

DRAFT = TUNABLE.replace("256", "512")


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


def drafting(seen: list[Job]) -> list[str]:
    return [job.id for job in seen if isinstance(job, TraceJob) and job.drafts]


async def test_a_draft_becomes_a_candidate_before_the_search_runs(bench: Workbench) -> None:
    bench.answers = Answers(draft=DRAFT)
    ended = await bench.run(await bench.begin(evaluations=4, emitters=("seed", "tune")))
    first, second, third, *_ = reversed(await bench.store.candidates.list(ended.id))
    assert ended.state is SearchState.DONE
    assert [(item.ordinal, item.emitter) for item in (first, second)] == [(0, SEED_EMITTER), (1, "seed")]
    assert (second.source, second.note, second.outcome) == (DRAFT, "TorchInductor", "correct")
    assert third.emitter == "tune"
    assert drafting(bench.answers.seen) == [draft_id(ended.id)]


async def test_a_draft_is_made_while_the_seeds_are_judged(bench: Workbench) -> None:
    search, drafted = await bench.begin(evaluations=4, emitters=("seed", "tune")), False
    while not drafted:
        await bench.evolution.tick()
        bench.work()
        drafted = bool(drafting(bench.answers.seen))
    assert (await bench.store.candidates.count(search.id)).evaluated == 0


async def test_no_draft_is_no_obstacle(bench: Workbench) -> None:
    ended = await bench.run(await bench.begin(evaluations=3, emitters=("seed", "tune")))
    emitters = [item.emitter for item in reversed(await bench.store.candidates.list(ended.id))]
    assert (ended.state, emitters) == (SearchState.DONE, ["seed", "tune", "tune"])


async def test_a_search_of_seeds_alone_ends_with_them(bench: Workbench) -> None:
    bench.answers = Answers(draft=DRAFT)
    ended = await bench.run(await bench.begin(evaluations=9, emitters=("seed",)))
    assert (ended.state, ended.reason) == (SearchState.DONE, "nothing new to propose")
    assert len(await bench.store.candidates.list(ended.id)) == 2


async def test_a_search_without_the_emitter_asks_for_none(bench: Workbench) -> None:
    ended = await bench.run(await bench.begin(evaluations=3, emitters=("tune",)))
    assert drafting(bench.answers.seen) == [] and draft_emitter(ended) is None
