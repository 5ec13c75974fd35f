"""Traces that are repeated: ordered once, believed if they are the same, refused if not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import NewCandidate, NewVariant, TraceOutcome
from service.evaluation.jobs import EvaluationCase, retrace_id
from service.evaluation.retraces import DIFFERS, MISTRACED, RetraceRefused, Retraces
from service.evaluation.unit_of_work import UnitOfWork
from service.evaluation.verdicts import _record
from tests.service import records
from tests.service.measured import DEVICE, elites, plant
from tests.service.workbench import Answers, Workbench
from workers.protocol import ConfirmJob, Device, Outcome, Toolchain, TracedVariant, TraceJob, TraceReport
from workers.queue import JobQueue, LeaseClient

SOURCE = "def double(x):\n    return x\n"


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


@pytest.fixture
async def case(bench: Workbench) -> EvaluationCase:
    """A candidate that was traced once."""
    search = await bench.begin(evaluations=1)
    new = NewCandidate(
        id="candidate", search=search.id, ordinal=7, emitter="tune", source=SOURCE, digest="d", trace_key="k"
    )
    candidate = await bench.store.candidates.add(new)
    assert candidate is not None
    traced = TraceOutcome(None, "", None, {}, (recorded(variant()),), sure=False)
    await bench.store.candidates.save_trace(candidate.id, traced)
    return EvaluationCase(
        search, records.OPERATOR, candidate, 0, records.bundle(1).identity, Device.parse(records.DEVICE)
    )


def variant(size: int = 1, warps: int = 4) -> TracedVariant:
    answers = Answers(bundle=lambda source: records.bundle(size))
    traced = answers.to(records_job())
    assert isinstance(traced, TraceReport)
    said = tuple(records.readings(warps) for _ in records.SHAPES)
    return traced.variants[0].model_copy(update={"readings": said})


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


def recorded(variant: TracedVariant) -> NewVariant:
    """A variant as it is kept."""
    return _record(variant, variant.bundle.identity if variant.bundle else None)


async def settled(retraces: Retraces, case: EvaluationCase, *variants: TracedVariant) -> RetraceRefused | None:
    retraces.claim(case.candidate)
    found: list[NewVariant] = [recorded(each) for each in variants]
    return await retraces.settle(case.candidate, Outcome.CORRECT, "", found)


async def test_a_repeat_is_ordered_once_and_of_trusted_workers(
    bench: Workbench, case: EvaluationCase, redis_url: str
) -> None:
    unit_of_work = UnitOfWork(bench.store, bench.dispatcher, bench.events)
    retraces = Retraces(bench.store, unit_of_work)
    assert not retraces.awaits("candidate")
    for _ in range(2):
        assert await retraces.known(case.candidate) is None
        retraces.request(case, ())
        await unit_of_work.commit()
    assert retraces.awaits("candidate")
    lessee = LeaseClient(redis_url, "w", target="sm_90")
    leased = [lease for _ in range(3) if (lease := lessee.lease(block_ms=0)) is not None]
    assert [(lease.job.id, lease.queue) for lease in leased if lease.job.id == retrace_id("candidate")] == [
        (retrace_id("candidate"), JobQueue("sm_90", "reserved-trace"))
    ]
    lessee.depart()
    retraces.forget(case.search.id)
    assert not retraces.awaits("candidate")


async def test_what_is_the_same_may_win_and_so_may_every_equal_source(bench: Workbench, case: EvaluationCase) -> None:
    retraces = Retraces(bench.store, UnitOfWork(bench.store, bench.dispatcher, bench.events))
    retraces.request(case, (retrace_id("candidate"),))
    assert await settled(retraces, case, variant(warps=16)) is None
    assert not retraces.awaits("candidate") and await retraces.known(case.candidate) is True
    [first, *_] = await bench.store.bundles.readings(case.bundle)
    assert first["num_warps"] == 4, "nobody doubted the first trace"
    twin = await bench.store.candidates.add(
        NewCandidate("twin", case.search.id, 8, "tune", SOURCE, "other", case.candidate.trace_key)
    )
    assert twin is not None
    await bench.store.candidates.save_trace(twin.id, TraceOutcome(None, "", None, {}, (recorded(variant()),)))
    again = EvaluationCase(case.search, case.operator, twin, 0, case.bundle, case.device)
    assert await retraces.known(again.candidate) is True and not retraces.awaits("twin")


async def test_readings_are_the_trusted_workers_where_a_host_was_doubted(
    bench: Workbench, case: EvaluationCase
) -> None:
    await bench.store.remote_workers.mark_unverified("candidate", "host")
    assert (
        await settled(
            Retraces(bench.store, UnitOfWork(bench.store, bench.dispatcher, bench.events)), case, variant(warps=16)
        )
        is None
    )
    assert await bench.store.remote_workers.unverified_trace("candidate") is None
    [first, *_] = await bench.store.bundles.readings(case.bundle)
    assert first["num_warps"] == 16


@pytest.mark.parametrize("others", [(), (2,), (1, 1)], ids=["nothing", "another", "one more"])
@pytest.mark.parametrize("unverified_trace", [False, True])
async def test_what_differs_is_refused_for_good(
    bench: Workbench, case: EvaluationCase, others: tuple[int, ...], unverified_trace: bool
) -> None:
    if unverified_trace:
        await bench.store.remote_workers.mark_unverified("candidate", "host")
    retraces = Retraces(bench.store, UnitOfWork(bench.store, bench.dispatcher, bench.events))
    found = [variant(size).model_copy(update={"index": index}) for index, size in enumerate(others)]
    expected = (
        RetraceRefused(Outcome.WORKER_LOST, MISTRACED)
        if unverified_trace
        else RetraceRefused(Outcome.NONDETERMINISTIC, DIFFERS)
    )
    assert await settled(retraces, case, *found) == expected
    assert await retraces.known(case.candidate) == expected and not retraces.awaits("candidate")


@pytest.mark.parametrize("is_verified", [True, False])
async def test_a_kernel_is_not_to_blame_for_another_toolchain(
    bench: Workbench, case: EvaluationCase, is_verified: bool
) -> None:
    if not is_verified:
        await bench.store.remote_workers.mark_unverified("candidate", "host")
    retraces = Retraces(bench.store, UnitOfWork(bench.store, bench.dispatcher, bench.events))
    other = variant(2)
    assert other.bundle is not None
    moved = other.bundle.model_copy(update={"toolchain": Toolchain(triton="3.9.0")})
    found = await settled(retraces, case, other.model_copy(update={"bundle": moved}))
    assert found is not None and found.outcome is Outcome.WORKER_LOST
    if is_verified:
        assert "triton 3.9.0 traced it" in found.reason
        assert await retraces.known(case.candidate) is None, "with the first toolchain it may be repeated"
    else:
        assert found.reason == MISTRACED, "an untrusted worker may name any toolchain"


async def test_a_repeat_that_ends_for_want_of_time_says_nothing_about_bundles(
    bench: Workbench, case: EvaluationCase
) -> None:
    unit_of_work = UnitOfWork(bench.store, bench.dispatcher, bench.events)
    retraces = Retraces(bench.store, unit_of_work)
    refused = await retraces.settle(case.candidate, Outcome.TRACE_TIMEOUT, "it took too long", [])
    assert refused == RetraceRefused(Outcome.TRACE_TIMEOUT, "its trace could not be repeated: it took too long")
    late = TracedVariant(index=0, outcome=Outcome.TRACE_TIMEOUT, reason="too late")
    refused = await settled(retraces, case, late)
    assert refused == RetraceRefused(Outcome.TRACE_TIMEOUT, "its trace could not be repeated: too late")
    assert await bench.store.retraces.find(case.candidate.trace_key) is None
    await bench.store.candidates.judge("candidate", refused.outcome.value, refused.reason, None, None)
    unit_of_work.drop()
    assert await retraces.known(case.candidate) == refused, "it is not traced a third time"


@pytest.mark.parametrize("again", [Outcome.TRACE_TIMEOUT, Outcome.CORRECT])
async def test_variants_that_there_was_no_time_for_hold_nothing_up(
    bench: Workbench, case: EvaluationCase, again: Outcome
) -> None:
    late = TracedVariant(index=1, outcome=Outcome.TRACE_TIMEOUT, reason="too late")
    traced = TraceOutcome(None, "", None, {}, (recorded(variant()), recorded(late)), sure=False)
    await bench.store.candidates.save_trace("candidate", traced)
    second = late if again is Outcome.TRACE_TIMEOUT else variant(2).model_copy(update={"index": 1})
    retraces = Retraces(bench.store, UnitOfWork(bench.store, bench.dispatcher, bench.events))
    assert await settled(retraces, case, variant(), second) is None
    assert await retraces.known(case.candidate) is True


class Fickle:
    """Traces a source to something else when it is asked for a second time."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def bundle(self, source: str) -> object:
        self.asked[source] = self.asked.get(source, 0) + 1
        return records.bundle(100 * self.asked[source])


@pytest.mark.parametrize("device", [records.DEVICE, DEVICE])
async def test_a_source_that_traces_to_something_else_wins_no_cell(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    plant(monkeypatch, 10)
    fickle = Fickle()
    bench.devices, bench.answers = (device,), Answers(bundle=fickle.bundle)  # type: ignore[arg-type]
    search = await bench.run(await bench.begin(evaluations=1))
    [candidate] = await bench.store.candidates.list(search.id)
    assert (candidate.outcome, candidate.reason) == ("nondeterministic", DIFFERS)
    assert await elites(bench, search) == [] and len(bench.judged(ConfirmJob)) == (device == DEVICE)
    assert list(fickle.asked.values()) == [2], "once, and once more"
