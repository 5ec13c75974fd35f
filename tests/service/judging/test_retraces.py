"""Traces that are repeated: ordered once, believed if they are the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import NewCandidate, Traced
from service.judging.jobs import Case, retrace_id
from service.judging.retraces import Retraces
from service.judging.verdicts import _record
from tests.service import records
from tests.service.workbench import Answers, Workbench
from workers.protocol import Device, TracedVariant, TraceJob, TraceReport
from workers.queue import Lane, Lessee

SOURCE = "def double(x):\n    return x\n"


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


@pytest.fixture
async def case(bench: Workbench) -> Case:
    """A candidate that a host has traced."""
    search = await bench.begin(budget=1)
    new = NewCandidate(
        id="candidate", search=search.id, ordinal=7, emitter="tune", source=SOURCE, digest="d", trace_key="k"
    )
    candidate = await bench.store.candidates.add(new)
    assert candidate is not None
    await bench.store.candidates.save_trace(candidate.id, Traced(None, "", None, {}, (_record(variant()),), sure=False))
    await bench.store.hosts.doubt(candidate.id, "host")
    return Case(search, records.OPERATOR, candidate, 0, records.bundle(1).identity, Device.parse(records.DEVICE))


def variant(size: int = 1, warps: int = 4) -> TracedVariant:
    answers = Answers(bundle=lambda source: records.bundle(size))
    traced = answers.to(records_job())
    assert isinstance(traced, TraceReport)
    lies = tuple(records.readings(warps) for _ in records.SHAPES)
    return traced.variants[0].model_copy(update={"readings": lies})


def records_job() -> TraceJob:
    return TraceJob(
        id="t",
        search="s",
        candidate="c",
        source=SOURCE,
        operator=records.OPERATOR,
        shapes=records.SHAPES,
        target="sm_90",
    )


async def test_a_repeat_is_ordered_of_trusted_workers_and_only_where_there_is_doubt(
    bench: Workbench, case: Case, redis_url: str
) -> None:
    retraces = Retraces(bench.store, bench.dispatcher)
    assert not retraces.awaits("candidate")
    for _ in range(2):
        assert not await retraces.is_believed(case, ())
    assert retraces.awaits("candidate")
    lessee = Lessee(redis_url, "w", target="sm_90")
    leased = [lease for _ in range(3) if (lease := lessee.lease(block_ms=0)) is not None]
    assert [(lease.job.id, lease.lane) for lease in leased if lease.job.id == retrace_id("candidate")] == [
        (retrace_id("candidate"), Lane("sm_90", "reserved-trace"))
    ]
    lessee.depart()
    retraces.forget(case.search.id)
    assert not retraces.awaits("candidate")
    await bench.store.hosts.believe("candidate")
    assert await retraces.is_believed(case, ())


async def test_what_is_the_same_is_believed_and_readings_are_the_trusted_workers(bench: Workbench, case: Case) -> None:
    retraces = Retraces(bench.store, bench.dispatcher)
    await retraces.is_believed(case, (retrace_id("candidate"),))
    assert await retraces.settle(case.candidate, [_record(variant(warps=16))])
    assert not retraces.awaits("candidate") and await bench.store.hosts.doubted("candidate") is None
    [first, *_] = await bench.store.bundles.readings(case.bundle)
    assert first["num_warps"] == 16


async def test_what_differs_is_not_believed(bench: Workbench, case: Case) -> None:
    retraces = Retraces(bench.store, bench.dispatcher)
    for variants in (
        [],
        [_record(variant(2))],
        [_record(variant()), _record(variant().model_copy(update={"index": 1}))],
    ):
        assert not await retraces.settle(case.candidate, variants)
    assert await bench.store.hosts.doubted("candidate") is not None
