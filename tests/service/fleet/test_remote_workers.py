"""Hosts: what they may do, what their word is worth, and how they are shut out."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from archive.records import PlacementRecord, RemoteWorkerState, SearchRecord
from service.errors import Conflict, NotFound
from service.evaluation import spot_checks
from service.evaluation.finalists import finalists
from service.evaluation.jobs import AGAIN
from service.fleet import remote_workers
from service.fleet.remote_workers import MOST_DISAGREED, RemoteWorkers, address_for_hosts
from tests.service import records
from tests.service.guests import JOINED, Guest, application
from tests.service.measured import DEVICE, elites, history, identity, outcomes, plant
from tests.service.records import TUNABLE
from tests.service.workbench import Answers, Workbench
from workers.errors import Dismissed
from workers.protocol import (
    PROTOCOL_VERSION,
    AnyReport,
    ConfirmJob,
    FinalJob,
    Job,
    MeasureJob,
    Outcome,
    Report,
    TraceJob,
    TraceReport,
    Trust,
    WireModel,
)
from workers.queue import LeaseBroker

FIRST, SECOND = 10, 15


@pytest.fixture(autouse=True)
async def nothing_planted(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 0.0)
    yield
    while JOINED:
        await JOINED.pop().leave()


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


@pytest.fixture
async def card(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, FIRST, SECOND)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()


async def test_an_honest_hosts_work_counts_once_a_trusted_worker_found_the_same(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    search = await guest.run(await bench.begin(evaluations=4))
    found = await bench.store.elites.list(search.id, records.DEVICE, 1)
    assert found and search.state.value == "done"
    ids = {job.id for job in guest.took}
    assert any(id.endswith(":trace") for id in ids) and any(id.endswith(":measure") for id in ids)
    seeds = {seed.id for seed in await bench.store.candidates.seeds(search.id)}
    assert not any(job.candidate in seeds or job.candidate is None for job in guest.took), (
        "what others are held against"
    )
    for elite in found:
        assert await bench.store.remote_workers.unverified_trace(elite.candidate) is None
        [deciding] = [
            report
            for report in await bench.store.reports.of_candidate(elite.candidate)
            if Report.model_validate_json(report).job == elite.job
        ]
        assert Report.model_validate_json(deciding).worker == "w"
    host = await guest.record()
    assert host.done == len(guest.took) and (host.refused, host.disagreed) == (0, 0)


async def test_a_made_up_speed_on_a_model_changes_no_cell(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    guest.answers = Answers(time_us=lambda bundle: 0.001)
    search = await guest.run(await bench.begin(evaluations=4))
    assert {elite.objective for elite in await bench.store.elites.list(search.id, records.DEVICE, 1)} == {1.0}
    again = [job.id for job in bench.answers.seen if isinstance(job, MeasureJob) and job.id.endswith(f":{AGAIN}")]
    assert again and not any(job.id.endswith(AGAIN) for job in guest.took)
    host = await guest.record()
    assert host.disagreed == len(again) and host.checked >= host.disagreed


async def test_a_forged_trace_changes_no_cell_and_costs_its_candidate(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    guest.answers = Answers(bundle=lambda source: records.bundle(7_000 + len(source)))
    search = await guest.run(await bench.begin(evaluations=4))
    forged = {
        variant.bundle.identity
        for job in guest.took
        if isinstance(job, TraceJob)
        for variant in guest.answers.to(job).variants
        if variant.bundle
    }
    assert forged
    for elite in await bench.store.elites.list(search.id, records.DEVICE, 1):
        assert elite.bundle not in forged
    lost = [one for one in await bench.store.candidates.list(search.id) if one.outcome == Outcome.WORKER_LOST]
    assert lost and all("could not repeat the trace" in one.reason for one in lost)
    assert (await guest.record()).disagreed == len(lost)


async def test_lies_about_readings_move_no_candidate_to_another_cell(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)

    def twist(job: Job, report: AnyReport) -> AnyReport:
        if not isinstance(report, TraceReport):
            return report
        lies = tuple(records.readings(32) for _ in records.SHAPES)
        return report.model_copy(
            update={"variants": tuple(one.model_copy(update={"readings": lies}) for one in report.variants)}
        )

    guest.twist = twist
    search = await guest.run(await bench.begin(evaluations=4))
    found = await bench.store.elites.list(search.id, records.DEVICE, 1)
    assert found and {elite.coordinates["num_warps"]["value"] for elite in found} <= {1.0, 2.0, 4.0, 8.0, 16.0}
    for elite in found:
        assert all(reading["num_warps"] != 32 for reading in await bench.store.bundles.readings(elite.bundle))


async def test_a_made_up_speed_on_a_card_needs_a_trusted_confirm(card: Workbench) -> None:
    card.answers = Answers(speedup=lambda job: 1.0, rival=lambda job: 1.0)
    guest = await Guest.join(card, DEVICE)
    guest.answers = Answers(speedup=lambda job: 50.0)
    search = await guest.run(await card.begin(evaluations=2))
    assert not any(isinstance(job, ConfirmJob) for job in guest.took)
    assert any(isinstance(job, MeasureJob) for job in guest.took)
    assert [elite.bundle for elite in await elites(card, search)] == [identity(FIRST)]
    assert [entry.objective for entry in await history(card, search)] == pytest.approx([0.98, 0.98]), (
        "of the seed alone"
    )
    documents = [
        Report.model_validate_json(document)
        for candidate in await card.store.candidates.list(search.id)
        for document in await card.store.reports.of_candidate(candidate.id)
    ]
    assert {report.trust for report in documents if report.worker == guest.id} == {Trust.C}
    host = await guest.record()
    assert host.disagreed >= 1 and host.state is RemoteWorkerState.ACTIVE


async def test_a_wrong_kernel_that_a_host_calls_right_holds_no_cell(card: Workbench) -> None:
    wrong = identity(SECOND)
    card.answers = Answers(
        outcome=lambda job: Outcome.WRONG_RESULT if records_bundle(job) == wrong else Outcome.CORRECT,
        rival=lambda job: 9.0,
    )
    guest = await Guest.join(card, DEVICE)
    guest.answers = Answers(speedup=lambda job: 9.0)
    search = await guest.run(await card.begin(evaluations=2))
    assert [elite.bundle for elite in await elites(card, search)] == [identity(FIRST)]
    assert sorted(await outcomes(card, search)) == ["correct", "wrong_result"]
    assert (await guest.record()).disagreed == 1


def records_bundle(job: MeasureJob | ConfirmJob) -> str:
    return (job.bundle if isinstance(job, MeasureJob) else job.challenger).identity


@pytest.mark.parametrize("trusted", [False, True])
async def test_only_a_trusted_host_confirms_and_examines(card: Workbench, trusted: bool) -> None:
    guest = await Guest.join(card, DEVICE)
    await guest.remote_workers.trust(guest.id, trusted)
    search = await guest.run(await card.begin(evaluations=2))
    assert any(isinstance(job, ConfirmJob) for job in guest.took) is trusted
    assert any(isinstance(job, TraceJob) and job.source is None for job in guest.took) is trusted
    assert any(isinstance(job, FinalJob) for job in guest.took) is trusted
    assert any(isinstance(job, TraceJob) and job.references for job in guest.took) is trusted
    held = await elites(card, search)
    stamps = await finalists(card.store, held)
    assert [stamps[elite.job].standing for elite in held] == ["passed"]
    assert (await guest.record()).refused == 0


LIES = {
    "another job": lambda job, report: report.model_copy(update={"job": f"{job.id}x"}),
    "another candidate": lambda job, report: report.model_copy(update={"candidate": "0199" * 8}),
    "another worker": lambda job, report: report.model_copy(update={"worker": "w"}),
    "another device": lambda job, report: with_device(report, "h200"),
    "another bundle": lambda job, report: with_bundle(report),
    "a confirm": lambda job, report: with_kind(report),
}


def with_device(report: AnyReport, device: str) -> AnyReport:
    return (
        report if isinstance(report, TraceReport) else Report.model_validate({**report.model_dump(), "device": device})
    )


def with_bundle(report: AnyReport) -> AnyReport:
    return report if isinstance(report, TraceReport) else report.model_copy(update={"bundle": "0" * 64})


def with_kind(report: AnyReport) -> AnyReport:
    return report if isinstance(report, TraceReport) else report.model_copy(update={"kind": "confirm"})


@pytest.mark.parametrize("lie", LIES)
async def test_a_report_that_answers_something_else_changes_nothing_and_is_counted(bench: Workbench, lie: str) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    search = await bench.begin(evaluations=2)
    while not guest.took:
        await bench.evolution.tick()
        guest.trusted_work()
        await guest.work_once()
    while lie not in ("another job", "another candidate", "another worker") and isinstance(guest.took[-1], TraceJob):
        await bench.evolution.tick()
        await guest.work_once()
    await bench.evolution.tick()
    placed, guest.twist = await history_on(bench, search), LIES[lie]
    await bench.dispatcher.submit(guest.took[-1])
    assert await guest.work_once()
    await bench.evolution.tick()
    assert await history_on(bench, search) == placed
    assert guest.took[-1].id in await bench.dispatcher.outstanding(search.id), "the job is still to be done"
    assert (await guest.record()).refused == 1


LARGE, INF, NAN = 10**400, float("inf"), float("nan")
UNKEPT: dict[str, dict[str, Any]] = {
    "a line": {"line": 10**30},
    "seconds without end": {"stages_s": {"trace": INF, "check": INF}},
    "seconds that are no number": {"stages_s": {"trace": NAN, "check": NAN}},
    "seconds that add up to infinity": {"stages_s": {"trace": 1e308, "check": 1e308, "time": 1e308}},
    "registers": {"registers": LARGE},
    "fewer warps than none": {"num_warps": -LARGE},
    "programs that are no number": {"programs_per_sm": NAN},
    "occupancy": {"occupancy": INF},
    "a variant's index": {"index": 10**30},
}
"""What no database holds, or no sum survives, by what is said to be so."""


def changed(report: AnyReport, changes: dict[str, Any]) -> AnyReport:
    """A report with some values changed, wherever in it they are."""

    def with_changes(part: WireModel) -> dict[str, Any]:
        return {name: changes[name] for name in changes.keys() & type(part).model_fields}

    update = with_changes(report)
    if isinstance(report, TraceReport):
        update["variants"] = tuple(
            variant.model_copy(
                update={
                    **with_changes(variant),
                    "readings": tuple(one.model_copy(update=with_changes(one)) for one in variant.readings),
                }
            )
            for variant in report.variants
        )
    return report.model_copy(update=update)


@pytest.mark.parametrize("lie", UNKEPT)
async def test_a_figure_that_nothing_can_hold_is_refused_and_holds_up_nobody(bench: Workbench, lie: str) -> None:
    """What the archive does not take, or what breaks a sum, would come again at every tick and stop all searches."""
    guest = await Guest.join(bench, records.DEVICE)
    guest.twist = lambda job, report: changed(report, UNKEPT[lie])
    search = await bench.begin(evaluations=2)
    for _ in range(20):
        await bench.evolution.tick()
        guest.trusted_work()
        await guest.work_once()
        if (await guest.record()).refused:
            break
    else:
        pytest.fail("nothing was refused")
    await guest.remote_workers.revoke(guest.id)
    assert (await bench.run(search)).state.value == "done", "a trusted worker does what is left"


async def history_on(bench: Workbench, search: SearchRecord) -> list[PlacementRecord]:
    return await bench.store.elites.history(search.id, records.DEVICE)


async def test_planted_jobs_find_out_who_lies_and_shut_it_out(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 1.0)
    guest = await Guest.join(bench, records.DEVICE)
    await guest.remote_workers.serve()
    search = await bench.run(await bench.begin(evaluations=4))
    before = await history_on(bench, search)
    guest.answers = Answers(outcome=lambda job: Outcome.WRONG_RESULT, bundle=lambda source: None)
    with pytest.raises(Dismissed, match="revoked"):
        for _ in range(20):
            await guest.work_once()
            await bench.evolution.tick()
            await guest.record()
    host = await guest.record()
    assert host.state is RemoteWorkerState.SUSPENDED and host.disagreed >= MOST_DISAGREED
    assert "differ from those of trusted workers" in host.reason
    assert all(job.id in {seen.id for seen in bench.answers.seen} for job in guest.took), "they look like any other"
    assert await history_on(bench, search) == before
    assert all(one.outcome == "correct" for one in await bench.store.candidates.list(search.id))
    with redis.Redis.from_url(redis_url) as client:
        assert f"reef-{guest.id}" not in [user for user in client.acl_users()]


async def test_an_honest_host_agrees_with_what_is_planted(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_checks, "SPOT_CHECK_SHARE", 1.0)
    guest = await Guest.join(bench, records.DEVICE)
    await guest.remote_workers.serve()
    await bench.run(await bench.begin(evaluations=4))
    while len(guest.took) < 6:
        await guest.work_once()
        await bench.evolution.tick()
    host = await guest.record()
    assert host.checked == host.done == 6 and (host.disagreed, host.state) == (0, RemoteWorkerState.ACTIVE)
    assert {type(job) for job in guest.took} <= {TraceJob, MeasureJob}


async def test_revoking_takes_effect_at_once_and_returns_what_was_held(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    await bench.begin(evaluations=2)
    while (lease := await guest.lease()) is None:
        await bench.evolution.tick()
        guest.trusted_work()
    began = time.monotonic()
    revoked = await guest.remote_workers.revoke(guest.id, "sold")
    assert (revoked.state, revoked.reason) == (RemoteWorkerState.REVOKED, "sold")
    assert bench.work(most=1) == 1 and bench.answers.seen[-1].id == lease.job.id
    with pytest.raises(Dismissed, match="revoked"):
        guest.lessee.heartbeat(lease)
    assert time.monotonic() - began < 3
    assert await guest.remote_workers.revoke(guest.id) == revoked
    again = await Guest.join(bench, records.DEVICE)
    assert again.id != guest.id and not (await again.record()).trusted


async def test_a_redis_that_lost_everything_lets_hosts_in_again_and_nobody_else(
    bench: Workbench, redis_url: str
) -> None:
    stays, goes = await Guest.join(bench, None), await Guest.join(bench, None)
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        client.acl_deluser(f"reef-{stays.id}")
        await bench.store.remote_workers.set_state(
            goes.id, RemoteWorkerState.REVOKED, only_from=(RemoteWorkerState.ACTIVE,)
        )
        successor = RemoteWorkers(
            bench.store, bench.dispatcher, LeaseBroker(redis_url), bench.evolution.spot_checks, bench.events
        )
        await successor.serve()
        await successor.stop()
        users = set(client.acl_users())
    assert f"reef-{stays.id}" in users and f"reef-{goes.id}" not in users
    stays.lessee.announce()
    with pytest.raises(Dismissed):
        goes.lessee.announce()


async def test_a_drained_host_leaves_and_is_soon_known_to_have_left(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    assert (await guest.remote_workers.drain(guest.id)).state is RemoteWorkerState.DRAINING
    assert (await guest.remote_workers.drain(guest.id)).state is RemoteWorkerState.DRAINING
    with pytest.raises(Dismissed, match="drained"):
        await guest.work_once()
    guest.lessee.depart()
    monkeypatch.setattr("service.fleet.remote_workers.GONE", timedelta())
    assert (await guest.record()).state is RemoteWorkerState.LEFT


async def test_who_is_silent_for_a_day_has_left_suspended_or_not(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, suspended = await Guest.join(bench, None), await Guest.join(bench, None)
    await bench.store.remote_workers.set_state(
        suspended.id, RemoteWorkerState.SUSPENDED, reason="lied", only_from=(RemoteWorkerState.ACTIVE,)
    )
    assert {host.id for host in await silent.remote_workers.list()} == {silent.id, suspended.id}
    monkeypatch.setattr("service.fleet.remote_workers.AWAY", timedelta())
    assert (await silent.record()).state is RemoteWorkerState.LEFT
    left = await bench.store.remote_workers.get(suspended.id)
    assert (left.state, left.reason) == (RemoteWorkerState.LEFT, "lied")
    assert await silent.remote_workers.list() == []


async def test_what_cannot_be_is_refused(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    for call in (guest.remote_workers.drain, guest.remote_workers.revoke, guest.remote_workers.get):
        with pytest.raises(NotFound, match="has joined"):
            await call("w")
    with pytest.raises(NotFound):
        await guest.remote_workers.trust("w", True)
    await guest.remote_workers.revoke(guest.id)
    for refused in (guest.remote_workers.drain(guest.id), guest.remote_workers.trust(guest.id, True)):
        with pytest.raises(Conflict, match="revoked"):
            await refused


@pytest.mark.parametrize(("offered", "advice"), [((0,), "on the worker"), ((7, 8), "on the service")])
async def test_who_speaks_no_version_of_ours_is_told_what_to_install(
    bench: Workbench, offered: tuple[int, ...], advice: str
) -> None:
    guest = await Guest.join(bench, None)
    with pytest.raises(Conflict, match=f"install a newer kernelreef {advice}") as refused:
        await guest.remote_workers.join(application(protocol_versions=offered), None)
    assert refused.value.field == "protocol_versions"
    both = await guest.remote_workers.join(application(protocol_versions=(1, PROTOCOL_VERSION)), None)
    assert both.host.protocol_version == PROTOCOL_VERSION


async def test_a_host_that_joined_under_another_protocol_is_let_go_and_told_why(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = await Guest.join(bench, None)
    assert (await guest.record()).state is RemoteWorkerState.ACTIVE
    monkeypatch.setattr(remote_workers, "SPOKEN", (PROTOCOL_VERSION + 1,))
    host = await guest.record()
    assert host.state is RemoteWorkerState.LEFT and "install a newer kernelreef on the worker" in host.reason
    with pytest.raises(Dismissed):
        await guest.lease()


def test_hosts_are_told_no_credential_of_ours() -> None:
    assert address_for_hosts("redis://user:secret@reef:6380/1?ssl_ca_certs=/etc/ca") == "redis://reef:6380/1"
    with pytest.raises(Conflict, match="REEF_WORKER_REDIS_URL"):
        address_for_hosts("unix:///run/redis.sock")


async def test_signs_of_disagreement_are_told_to_watchers(bench: Workbench) -> None:
    guest = await Guest.join(bench, records.DEVICE)
    guest.answers = Answers(time_us=lambda bundle: 0.001)
    search = await guest.run(await bench.begin(evaluations=3))
    told = [entry.event for entry in bench.events._history if getattr(entry.event, "worker", "") == guest.id]
    assert {event.state for event in told} == {"joined", "disagreed"}
    assert search.state.value == "done"
