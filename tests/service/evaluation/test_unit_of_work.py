"""Nothing is sent or told before it is written, and what cannot be written is neither."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import (
    CandidateVerdict,
    NewCandidate,
    NewVariant,
    Placement,
    ReferenceChange,
    SearchState,
    TraceOutcome,
)
from archive.store import ReportKey
from service.evaluation.jobs import EvaluationCase, trace_job
from service.evaluation.next_step import ReportFacts
from service.evaluation.promotion import GridPosition, _offer
from service.evaluation.unit_of_work import UnitOfWork
from service.events import CandidateJudged, ElitePromoted, Event, EventBus
from tests.service import records
from tests.service.workbench import Workbench
from workers.protocol import PRACTICAL_MARGIN, PROTOCOL_VERSION, Device, Ratio, TraceReport
from workers.queue import LeaseClient

WHERE = {"num_warps": {"value": 4.0, "bin": 0}}
FACTS = ReportFacts("candidate:0:measure", correct=True, trusted=True, speedup=Ratio(low=2.0, mid=2.0, high=2.0))


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    await bench.begin(id="search")
    yield bench
    await bench.close()


@pytest.fixture
async def case(bench: Workbench) -> EvaluationCase:
    """A candidate with one bundle, not traced yet as far as the archive knows."""
    new = NewCandidate("candidate", "search", 1, "tune", "x = 1", "digest", "key")
    candidate = await bench.store.candidates.add(new)
    assert candidate is not None
    search = await bench.store.searches.get("search")
    return EvaluationCase(
        search, records.OPERATOR, candidate, 0, records.bundle(3).identity, Device.parse(records.DEVICE)
    )


def told(bench: Workbench) -> tuple[UnitOfWork, list[Event]]:
    """A ledger, and what it tells."""
    heard: list[Event] = []
    return UnitOfWork(bench.store, bench.dispatcher, EventBus(observe=heard.append)), heard


async def test_what_is_written_is_read_back_and_told_only_after_the_commit(
    bench: Workbench, case: EvaluationCase
) -> None:
    unit_of_work, heard = told(bench)
    trace = bench.answers.to(trace_job(case.search, case.operator, case.candidate))
    assert isinstance(trace, TraceReport)
    report = records.report({}, candidate="candidate", job=case.job(), bundle=case.bundle, search="search")
    await unit_of_work.expect([trace, report])
    await unit_of_work.save_trace("candidate", TraceOutcome(None, "", None, {}, ()), [(case.bundle, records.bundle(3))])
    for _ in range(2):
        await unit_of_work.save_report(case, report)
    unit_of_work.judge(case.candidate, CandidateVerdict("candidate", "correct", "", None, 2.0))
    unit_of_work.offer(_offer(case, GridPosition(0, WHERE), FACTS))
    unit_of_work.send(trace_job(case.search, case.operator, case.candidate))
    about = ReportKey(case.search.operator, case.bundle, records.DEVICE, PROTOCOL_VERSION)
    assert await unit_of_work.reports("candidate") == [report] == await unit_of_work.measures(about)
    assert await unit_of_work.bundle(case.bundle) == records.bundle(3)
    identities = [variant.bundle.identity for variant in trace.variants if variant.bundle is not None]
    assert list(unit_of_work.identities(trace).values()) == identities != []
    before = await bench.dispatcher.outstanding("search")
    assert heard == [] and (await bench.store.candidates.get("candidate")).outcome is None

    assert await unit_of_work.commit() == {"candidate"}
    assert [type(event) for event in heard] == [ElitePromoted, CandidateJudged]
    assert (await bench.store.candidates.get("candidate")).objective == 2.0
    assert await bench.dispatcher.outstanding("search") - before == {"candidate:trace"}
    assert await unit_of_work.commit() == frozenset() and len(heard) == 2


async def test_what_cannot_be_written_is_neither_sent_nor_told(bench: Workbench, case: EvaluationCase) -> None:
    unit_of_work, heard = told(bench)
    before = await bench.dispatcher.outstanding("search")
    unit_of_work.judge(case.candidate, CandidateVerdict("candidate", "correct", "", None, 2.0))
    unit_of_work.send(trace_job(case.search, case.operator, case.candidate))
    await unit_of_work.save_trace(
        "nobody", TraceOutcome(None, "", None, {}, (NewVariant(0, {}, outcome="compile_error"),)), ()
    )
    with pytest.raises(RecordConflict):
        await unit_of_work.commit()
    assert await unit_of_work.commit() == frozenset() and heard == []
    assert await bench.dispatcher.outstanding("search") == before
    unit_of_work.judge(case.candidate, CandidateVerdict("candidate", "correct", "", None, 2.0))
    unit_of_work.drop()
    assert await unit_of_work.commit() == frozenset()
    assert (await bench.store.searches.get("search")).state is SearchState.PREPARING


async def test_a_second_verdict_is_not_told(bench: Workbench, case: EvaluationCase) -> None:
    unit_of_work, heard = told(bench)
    for outcome in ("correct", "hang"):
        unit_of_work.judge(case.candidate, CandidateVerdict("candidate", outcome, "", None, None))
        await unit_of_work.commit()
    assert [event.outcome for event in heard if isinstance(event, CandidateJudged)] == ["correct"]


async def test_only_a_first_verdict_changes_the_reference_seed(bench: Workbench, case: EvaluationCase) -> None:
    unit_of_work, _ = told(bench)
    hang, wrong = (CandidateVerdict("candidate", outcome, "", None, None) for outcome in ("hang", "wrong_result"))
    unit_of_work.judge(case.candidate, hang, reference=ReferenceChange("search", 0, 1, "figures relate to seed 1"))
    assert (await bench.store.searches.get("search")).reference_seed == 0
    await unit_of_work.commit()
    unit_of_work.judge(case.candidate, wrong, reference=ReferenceChange("search", 1, 2, "figures relate to seed 2"))
    await unit_of_work.commit()
    search = await bench.store.searches.get("search")
    assert (search.reference_seed, search.refused_seeds) == (1, "figures relate to seed 1")


async def test_a_confirmed_challenger_is_decided_at_once_and_after_what_waits(
    bench: Workbench, case: EvaluationCase
) -> None:
    unit_of_work, heard = told(bench)
    unit_of_work.judge(case.candidate, CandidateVerdict("candidate", "correct", "", None, 2.0))
    placement = await unit_of_work.promote(_offer(case, GridPosition(0, WHERE), FACTS), PRACTICAL_MARGIN)
    assert placement is Placement.NEW
    assert [type(event) for event in heard] == [CandidateJudged, ElitePromoted]


async def test_what_is_not_there_is_said(bench: Workbench) -> None:
    unit_of_work, _ = told(bench)
    with pytest.raises(RecordNotFound):
        await unit_of_work.candidate("nobody")
    with pytest.raises(RecordNotFound):
        await unit_of_work.readings("b" * 64)
    assert await unit_of_work.unverified_trace("nobody") is None and await unit_of_work.variants("nobody") == []


async def test_jobs_for_trusted_workers_stay_reserved(bench: Workbench, case: EvaluationCase, redis_url: str) -> None:
    unit_of_work, _ = told(bench)
    unit_of_work.send(trace_job(case.search, case.operator, case.candidate), reserved=True)
    await unit_of_work.commit()
    lessee = LeaseClient(redis_url, "w", target="sm_90")
    leased = [lease for _ in range(3) if (lease := lessee.lease(block_ms=0)) is not None]
    assert ("candidate:trace", "reserved-trace") in [(lease.job.id, lease.queue.kind) for lease in leased]
