"""What a report means: variants, verdicts, baselines; a report may come twice and a bundle may be asked for twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import CandidateState, Search
from service.jobs import measure_id
from tests.service import records
from tests.service.test_evolution import TUNABLE
from tests.service.workbench import Answers, Workbench
from workers.protocol import MeasureJob, Outcome


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def _ended(bench: Workbench, budget: int = 3) -> Search:
    return await bench.run(await bench.begin(budget=budget))


async def test_the_baseline_is_the_first_seeds_time(bench: Workbench) -> None:
    seed = records.bundle(1 + len(TUNABLE)).identity
    bench.answers = Answers(time_us=lambda bundle: 12.5 if bundle == seed else 5.0)
    search = await _ended(bench)
    assert await bench.evolution.verdicts.baseline_us(search, records.DEVICE) == {"N=1024": 12.5, "N=4096": 12.5}
    assert await bench.evolution.verdicts.baseline_us(search, "h200") == {}


async def test_a_verdict_carries_the_objective_and_the_report_stays_readable(bench: Workbench) -> None:
    search = await _ended(bench)
    for candidate in await bench.store.candidates.list(search.id):
        documents = await bench.store.reports.of_candidate(candidate.id)
        assert candidate.state is CandidateState.JUDGED and candidate.outcome == Outcome.CORRECT
        assert len(documents) == 1 and measure_id(candidate.id, 0, records.DEVICE) in documents[0]


async def test_jobs_that_wait_in_the_queue_are_not_sent_again(bench: Workbench) -> None:
    search = await bench.begin(budget=3)
    for _ in range(3):
        await bench.evolution.tick()
        bench.work(most=1)
    await bench.evolution.tick()
    waiting = await bench.dispatcher.outstanding(search.id)
    await bench.evolution.sweep(await bench.store.searches.get(search.id))
    assert await bench.dispatcher.outstanding(search.id) == waiting
    bench.work()
    measured = [job.id for job in bench.answers.seen if isinstance(job, MeasureJob)]
    assert len(measured) == len(set(measured))


async def test_a_report_about_nothing_we_know_is_let_go(bench: Workbench) -> None:
    search = await _ended(bench)
    job = next(job for job in bench.answers.seen if isinstance(job, MeasureJob))
    await bench.dispatcher.submit(job.model_copy(update={"candidate": "nobody", "id": "nobody:0"}))
    bench.work()
    await bench.evolution.tick()
    assert len(await bench.store.candidates.list(search.id)) == 3
    assert await bench.dispatcher.outstanding(search.id) == set()
