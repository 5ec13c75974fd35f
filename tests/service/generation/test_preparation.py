"""A search runs once its reference, its operator's admission and a verdict per seed are there, in whatever order."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchState
from service.evaluation.jobs import admission_id, reference_id
from tests.service import records
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench
from workers.protocol import MeasureJob


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def test_what_is_missing_holds_the_search_back(bench: Workbench) -> None:
    search = await bench.begin(evaluations=4)
    kept = {reference_id(search.id), admission_id(search.id)}
    for held, measured in ((kept, False), ({admission_id(search.id)}, True)):
        for _ in range(6):
            await bench.evolution.tick()
            bench.work(but=held)
        assert (await bench.store.searches.get(search.id)).state is SearchState.PREPARING
        assert bool(bench.judged(MeasureJob)) == measured
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE and len(await bench.store.candidates.list(search.id)) == 4


async def test_an_admission_brings_the_reference_too(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    for _ in range(6):
        await bench.evolution.tick()
        bench.work(but={reference_id(search.id)})
    assert bench.judged(MeasureJob) and (await bench.store.searches.get(search.id)).graphs
