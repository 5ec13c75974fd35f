"""Each source is traced once, however many searches propose it at the same time."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchState
from service.evaluation.jobs import retrace_id, trace_id
from tests.service import records
from tests.service.measured import DEVICE, plant
from tests.service.workbench import Workbench, bundle_of
from workers.protocol import ConfirmJob, MeasureJob, TraceJob

SEEDS = (10, 15, 11)


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, *SEEDS)
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


def traced(bench: Workbench, *, again: bool) -> Counter[str]:
    """How often each source was traced, for the first time or for the second."""
    name = retrace_id if again else trace_id
    jobs = [job for job in bench.judged(TraceJob) if job.candidate and job.id == name(job.candidate)]
    return Counter(job.source or "" for job in jobs)


@pytest.mark.parametrize("device", [records.DEVICE, DEVICE])
async def test_two_searches_at_once_share_every_job(bench: Workbench, device: str) -> None:
    bench.devices = (device,)
    first = await bench.begin(evaluations=len(SEEDS))
    second = await bench.begin(evaluations=len(SEEDS), id="search-2")
    for search in (first, second):
        assert (await bench.run(search)).state is SearchState.DONE
        outcomes = [each.outcome for each in await bench.store.candidates.list(search.id)]
        assert outcomes == ["correct"] * len(SEEDS)
        assert await bench.store.elites.list(search.id, device, search.axes_version)
    assert set(traced(bench, again=False).values()) == {1} and len(traced(bench, again=False)) == len(SEEDS)
    assert set(traced(bench, again=True).values()) == {1}
    for kind in (MeasureJob, ConfirmJob):
        judged = Counter((bundle_of(job).identity, getattr(job, "incumbent", None)) for job in bench.judged(kind))
        assert set(judged.values()) <= {1}
    assert len(bench.judged(MeasureJob)) == len(SEEDS)


async def test_whoever_waits_for_a_search_that_is_stopped_is_not_forgotten(bench: Workbench) -> None:
    first = await bench.begin(evaluations=len(SEEDS))
    second = await bench.begin(evaluations=len(SEEDS), id="search-2")
    while not traced(bench, again=False):
        await bench.evolution.tick()
        bench.work(most=1)
    await bench.store.searches.set_state(first.id, SearchState.STOPPED)
    assert (await bench.run(second)).state is SearchState.DONE
    outcomes = [each.outcome for each in await bench.store.candidates.list(second.id)]
    assert outcomes == ["correct"] * len(SEEDS)
