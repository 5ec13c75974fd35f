"""What is said by hosts, before it counts. `test_hosts` goes the whole way."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from archive.records import RemoteWorker, RemoteWorkerCounts
from service.evaluation import spot_checks
from service.evaluation.jobs import retrace_id
from service.evaluation.spot_checks import SpotChecks
from service.events import EventBus, WorkerChanged
from tests.service import records
from tests.service.guests import JOINED, Guest
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench
from tests.workers.sheets import H200
from workers.protocol import Device, MeasureJob, Outcome, Report, TraceJob, TraceReport, Trust, TrustGrounds
from workers.protocol.trust import FULL_JAIL
from workers.queue import Delivery

NOBODY = "0190a000-0000-7000-8000-000000000000"


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    while JOINED:
        await JOINED.pop().leave()
    await bench.close()


@pytest.fixture
async def host(bench: Workbench) -> RemoteWorker:
    guest = await Guest.join(bench, records.DEVICE)
    return await bench.store.remote_workers.get(guest.id)


@pytest.fixture
def vetted(bench: Workbench) -> SpotChecks:
    return bench.evolution.spot_checks


def verdict(worker: str, **changes: object) -> Report:
    return records.report({"N=1024": 10.0, "N=4096": 10.0}, worker=worker, **changes)


async def test_a_trusted_workers_report_passes_as_it_is(vetted: SpotChecks) -> None:
    delivery = Delivery(verdict("w"), "w:1-1:")
    assert await vetted.check([delivery]) == [delivery] and vetted.take_tallies() == {}


async def test_two_products_of_one_class_are_said_once(bench: Workbench) -> None:
    told: list[object] = []
    vetted = SpotChecks(bench.store, EventBus(observe=told.append))
    h200 = {"device": Device.parse("h200")}
    other = H200.model_copy(update={"sms": 120})
    for worker, card in (("a", H200), ("b", H200), ("c", other), ("c", other), ("d", None)):
        delivery = Delivery(verdict(worker, card=card, **h200), "receipt")
        assert await vetted.check([delivery]) == [delivery]
    found = [event for event in told if isinstance(event, WorkerChanged)]
    assert [(event.worker, event.state) for event in found] == [("c", "disagreed")]
    assert "two products are called h200: its card has 120 SMs" in found[0].reason


async def test_an_untrusted_hosts_verdict_has_trust_c_and_never_more(
    bench: Workbench, vetted: SpotChecks, host: RemoteWorker
) -> None:
    said = [verdict(host.id, trust=trust) for trust in (None, Trust.A, Trust.D)]
    passed = await vetted.check([Delivery(report, "receipt") for report in said])
    assert [delivery.report.trust for delivery in passed] == [Trust.C, Trust.C, Trust.D]
    assert vetted.take_tallies() == {host.id: RemoteWorkerCounts(done=3)}
    await bench.store.remote_workers.trust(host.id, True)
    vetted.know([await bench.store.remote_workers.get(host.id)])
    [trusted] = await vetted.check([Delivery(verdict(host.id, trust=Trust.B), "receipt")])
    assert trusted.report.trust is Trust.B


async def test_what_only_trusted_workers_may_decide_does_not_pass(vetted: SpotChecks, host: RemoteWorker) -> None:
    confirm = verdict(host.id, kind="confirm", job="c:0:h200:confirm:none")
    again = verdict(host.id, job="c:0:model:sm_90:measure:again")
    base = {"search": "s", "worker": host.id, "outcome": Outcome.CORRECT}
    reference = TraceReport(job="s:reference", **base)
    retrace = TraceReport(job=retrace_id("c"), candidate="c", **base)
    unknown = TraceReport(job="c:trace", candidate="c", **base)
    deliveries = [Delivery(report, "receipt") for report in (confirm, again, reference, retrace, unknown)]
    assert await vetted.check(deliveries) == []
    assert vetted.take_tallies() == {host.id: RemoteWorkerCounts(done=5, refused=4)}


async def test_nobody_reports_under_an_id_that_never_joined(vetted: SpotChecks) -> None:
    assert await vetted.check([Delivery(verdict(NOBODY), "receipt")]) == []


async def test_what_is_planted_was_answered_by_a_trusted_worker_and_fits_the_host(
    bench: Workbench, vetted: SpotChecks, host: RemoteWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 1.0)
    assert await vetted.choose(host) is None, "nothing is known yet"
    vetted.know([host])
    await bench.run(await bench.begin(evaluations=3))
    answered = {job.id: job for job in bench.answers.seen}
    chosen = [found for _ in range(20) if (found := await vetted.choose(host)) is not None]
    assert {type(job) for job, _ in chosen} == {TraceJob, MeasureJob}
    assert all(answered[job.id] == job for job, _ in chosen), "as it was, so that nothing tells it apart"
    assert all('"correct":true' in known for _, known in chosen)
    assert await vetted.choose(replace(host, target="sm_80", device="h200")) is None
    assert await vetted.choose(replace(host, trusted=True)) is None
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 0.0)
    assert await vetted.choose(host) is None


async def test_a_coordinator_that_has_just_started_plants_the_seeds_of_open_searches(
    bench: Workbench, host: RemoteWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 1.0)
    search = await bench.begin(evaluations=50)
    while (await bench.store.candidates.count(search.id)).evaluated < 1:
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work, 1)
    answered = {job.id: job for job in bench.answers.seen}
    fresh = SpotChecks(bench.store, bench.events)
    chosen = [found for _ in range(20) if (found := await fresh.choose(host)) is not None]
    assert {type(job) for job, _ in chosen} == {TraceJob, MeasureJob}
    assert all(answered[job.id] == job for job, _ in chosen), "as it was, so that nothing tells it apart"
    for job, known in chosen:
        said = spot_checks.TrustedResult.of(bench.answers.to(job))
        assert said is not None and said.differs(spot_checks.TrustedResult.model_validate_json(known)) == ""


async def test_planted_answers_are_compared_and_go_no_further(vetted: SpotChecks, host: RemoteWorker) -> None:
    right = spot_checks.TrustedResult.of(verdict("w"))
    assert right is not None
    known = right.model_dump_json()
    wrong = verdict(host.id, outcome=Outcome.WRONG_RESULT)
    lost = verdict(host.id, outcome=Outcome.WORKER_LOST)
    assert await vetted.check([Delivery(report, "receipt", known) for report in (verdict(host.id), wrong, lost)]) == []
    assert vetted.take_tallies() == {host.id: RemoteWorkerCounts(done=3, checked=2, disagreed=1)}


async def test_what_a_host_claims_for_itself_vouches_for_nothing(vetted: SpotChecks, host: RemoteWorker) -> None:
    best = TrustGrounds(
        jail="+".join(FULL_JAIL),
        replayed=True,
        measured=True,
        exclusive=True,
        agreed=True,
        sanitised=True,
        seconded=True,
    )
    said = [
        verdict(host.id, trust=Trust.A, grounds=best),
        verdict(host.id, grounds=best.model_copy(update={"jail": ""})),
    ]
    passed = [delivery.report for delivery in await vetted.check([Delivery(report, "receipt") for report in said])]
    assert [report.trust for report in passed] == [Trust.C, Trust.D]
    assert [report.grounds.vouched for report in passed] == [False, False]
