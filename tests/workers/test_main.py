"""Worker processes: they bring reports back whatever becomes of their bench, of the queue and of themselves."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from service.embedded import EmbeddedServer
from tests.workers.queue.samples import DEVICE, confirm_job, measure_job, trace_job
from workers.errors import QueueUnavailable, ToolMissing
from workers.main import MOST_PASSED, LeaseLoop, LeasePace, main
from workers.protocol import AnyReport, Job, Outcome, TraceJob
from workers.queue import Dispatcher, LeaseClient
from workers.queue.lease import MAX_DELIVERIES

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHORT_MS = 600
WAIT_S = 120.0

PARENT = """
import os, subprocess, sys
print(subprocess.Popen([*sys.argv[1:], str(os.getpid())]).pid, flush=True)
input()
"""
BRISK = LeasePace(block_ms=50, stop_s=0.1, pause_s=0.05, drop_s=0.1)

T = TypeVar("T")
Hire = Callable[..., LeaseLoop]
Spawn = Callable[..., "subprocess.Popen[bytes]"]


def order(name: str, text: str, *, search: str = "search-1", deadline_s: float = 60.0) -> TraceJob:
    """A job whose source tells the stand-in bench what to do."""
    return trace_job(name, search, deadline_s=deadline_s).model_copy(update={"source": text})


@pytest.fixture
def hire(redis_url: str) -> Iterator[Hire]:
    """Run workers in threads of this process."""
    crew: list[tuple[LeaseLoop, threading.Thread]] = []

    def hire(
        name: str = "w", *, url: str = redis_url, ahead: bool = False, measures: bool = False, **limits: float
    ) -> LeaseLoop:
        command = (sys.executable, str(HERE / "stand_in.py"), name)
        where = {"device": DEVICE} if measures else {"target": "sm_90"}
        lessee = LeaseClient(url, name, **where, lease_ms=SHORT_MS)
        commands = {"measure" if measures else "trace": command}
        worker = LeaseLoop(lessee, commands, replace(BRISK, **limits), ahead=lessee if ahead else None)
        thread = threading.Thread(target=worker.run)
        thread.start()
        crew.append((worker, thread))
        return worker

    yield hire
    for worker, _ in crew:
        worker.stop()
    for _, thread in crew:
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.fixture
def spawn(redis_url: str) -> Iterator[Spawn]:
    """Run workers as processes."""
    processes: list[subprocess.Popen[bytes]] = []

    def spawn(name: str) -> "subprocess.Popen[bytes]":
        command = (sys.executable, str(HERE / "stand_in_worker.py"), "--id", name, "--lease-ms", str(SHORT_MS))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "REEF_REDIS_URL": redis_url}
        processes.append(subprocess.Popen(command, env=environment))
        return processes[-1]

    yield spawn
    for process in processes:
        process.terminate()
        assert process.wait(WAIT_S) is not None


async def collect(dispatcher: Dispatcher, count: int = 1) -> list[AnyReport]:
    """Wait for reports."""
    reports: list[AnyReport] = []
    give_up = time.monotonic() + WAIT_S
    while len(reports) < count and time.monotonic() < give_up:
        deliveries = await dispatcher.collect(block_ms=100)
        reports += [delivery.report for delivery in deliveries]
        await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
    return reports


async def taken(dispatcher: Dispatcher, job: str) -> None:
    """Wait until a worker says that it works on a job."""
    give_up = time.monotonic() + WAIT_S
    while job not in [status.busy for status in await dispatcher.workers()]:
        assert time.monotonic() < give_up, f"nobody took {job}"
        await asyncio.sleep(0.02)


async def persist(call: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Call until the queue answers."""
    while True:
        try:
            return await call(*arguments)
        except QueueUnavailable:
            await asyncio.sleep(0.05)


async def test_jobs_come_back_as_reports(dispatcher: Dispatcher, hire: Hire) -> None:
    for index in range(5):
        await dispatcher.submit(trace_job(f"job-{index}"))
    hire()
    reports = await collect(dispatcher, 5)
    assert {(report.job, report.outcome) for report in reports} == {(f"job-{i}", Outcome.CORRECT) for i in range(5)}
    assert len({report.reason for report in reports}) == 1, "one bench served them all"
    assert await dispatcher.outstanding("search-1") == set()


async def test_a_job_longer_than_its_lease_is_kept(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(order("long", f"sleep {4 * SHORT_MS / 1000}"))
    hire("first")
    hire("second")
    [report] = await collect(dispatcher)
    assert report.job == "long"
    assert await dispatcher.collect(block_ms=300) == []


@pytest.mark.parametrize("mishap", ["die-once", "fail-once"])
async def test_a_mishap_costs_a_second_try(dispatcher: Dispatcher, hire: Hire, tmp_path: Path, mishap: str) -> None:
    await dispatcher.submit(order("job-1", f"{mishap} {tmp_path / 'happened'}"))
    hire()
    [report] = await collect(dispatcher)
    assert (report.job, report.outcome) == ("job-1", Outcome.CORRECT)
    assert (tmp_path / "happened").exists()


@pytest.mark.parametrize("text", ["die", "transient no memory", "say nonsense", 'say {"kind": "ready", "jail": ""}'])
async def test_a_job_that_fails_every_bench_is_lost_and_no_other_is(
    dispatcher: Dispatcher, hire: Hire, text: str
) -> None:
    await dispatcher.submit(order("poison", text))
    await dispatcher.submit(trace_job("harmless", "search-2"))
    hire()
    reports = {report.job: report for report in await collect(dispatcher, 2)}
    assert reports["poison"].outcome is Outcome.WORKER_LOST
    assert "The last one said:" in reports["poison"].reason
    assert reports["harmless"].outcome is Outcome.CORRECT


async def test_a_job_that_waits_for_what_others_hold_is_never_lost(
    dispatcher: Dispatcher, hire: Hire, tmp_path: Path
) -> None:
    await dispatcher.submit(order("large", f"waits {tmp_path / 'tries'} {2 * MAX_DELIVERIES}"))
    hire()
    [report] = await collect(dispatcher)
    assert (report.job, report.outcome) == ("large", Outcome.CORRECT)
    assert (tmp_path / "tries").stat().st_size == 2 * MAX_DELIVERIES


async def test_a_job_that_can_never_be_done_is_lost_at_once_with_the_reason(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(order("job-1", "permanent ToolMissing: no ptxas"))
    hire()
    [report] = await collect(dispatcher)
    assert (report.outcome, report.reason) == (Outcome.WORKER_LOST, "ToolMissing: no ptxas")


async def test_a_job_far_over_its_deadline_loses_its_bench(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(order("endless", "sleep 600", deadline_s=0.1))
    hire(grace_s=0.1)
    [report] = await collect(dispatcher)
    assert (report.job, report.outcome) == ("endless", Outcome.WORKER_LOST)


async def test_a_cancelled_job_is_dropped_and_its_worker_free(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(order("cancelled", "sleep 600"))
    hire()
    await taken(dispatcher, "cancelled")
    await dispatcher.cancel("search-1")
    await dispatcher.submit(trace_job("next", "search-2"))
    [report] = await collect(dispatcher)
    assert report.job == "next"


async def test_a_bench_outlives_a_cancelled_job_that_ends_soon(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(trace_job("before", "search-0"))
    hire(drop_s=WAIT_S)
    [before] = await collect(dispatcher)
    await dispatcher.submit(order("cancelled", "sleep 2"))
    await taken(dispatcher, "cancelled")
    await dispatcher.cancel("search-1")
    await dispatcher.submit(trace_job("next", "search-2"))
    [report] = await collect(dispatcher)
    assert (report.job, report.reason) == ("next", before.reason), "another process did it"


async def test_a_stopped_worker_finishes_its_job(dispatcher: Dispatcher, hire: Hire) -> None:
    await dispatcher.submit(order("job-1", "sleep 0.5"))
    worker = hire(stop_s=WAIT_S)
    await taken(dispatcher, "job-1")
    worker.stop()
    [report] = await collect(dispatcher)
    assert report.job == "job-1"


async def test_a_stopped_worker_gives_back_what_it_cannot_finish(
    dispatcher: Dispatcher, hire: Hire, redis_url: str
) -> None:
    await dispatcher.submit(order("job-1", "sleep 600"))
    worker = hire("leaves", stop_s=0.1)
    await taken(dispatcher, "job-1")
    worker.stop()
    while await dispatcher.workers():
        await asyncio.sleep(0.02)
    assert await dispatcher.outstanding("search-1") == {"job-1"}
    lease = LeaseClient(redis_url, "heir", target="sm_90").lease(block_ms=0)
    assert lease is not None and lease.deliveries == 1


async def test_a_worker_that_looks_ahead_holds_two_more_jobs_and_gives_all_back(
    dispatcher: Dispatcher, hire: Hire, redis_url: str
) -> None:
    for name in ("first", "second", "third", "fourth"):
        await dispatcher.submit(order(name, "sleep 600"))
    worker = hire("leaves", ahead=True, stop_s=0.1)
    await taken(dispatcher, "first")
    heir = LeaseClient(redis_url, "heir", target="sm_90")
    while (left := heir.lease(block_ms=0)) is None or left.job.id != "fourth":
        assert left is None or left.job.id in ("second", "third"), "it was not quick enough to take them"
        heir.release(left)
    assert [status.busy for status in await dispatcher.workers() if status.id == "leaves"] == ["first"]
    await asyncio.sleep(2 * SHORT_MS / 1000)
    assert heir.lease(block_ms=0) is None, "all three are renewed"
    worker.stop()
    back = []
    while len(back) < 3:
        back += [lease for lease in [heir.lease(block_ms=50)] if lease is not None]
    assert {(lease.job.id, lease.deliveries) for lease in back} == {("first", 1), ("second", 1), ("third", 1)}


@pytest.mark.parametrize(("make", "ahead"), [(measure_job, 2), (confirm_job, 1)])
async def test_fewer_jobs_wait_behind_a_confirm(
    dispatcher: Dispatcher, hire: Hire, redis_url: str, make: Callable[[str], Job], ahead: int
) -> None:
    await dispatcher.submit(make("long").model_copy(update={"candidate": "sleep 600"}))
    for index in range(3):
        await dispatcher.submit(measure_job(f"job-{index}"))
    hire(ahead=True, measures=True)
    await taken(dispatcher, "long")
    heir = LeaseClient(redis_url, "heir", device=DEVICE)
    while (left := heir.lease(block_ms=0)) is None or left.job.id != f"job-{ahead}":
        assert left is None or int(left.job.id[-1]) < ahead, "it was not quick enough to take them"
        heir.release(left)
    rest = [lease.job.id for _ in range(ahead + 1, 3) if (lease := heir.lease(block_ms=0))]
    assert rest == [f"job-{index}" for index in range(ahead + 1, 3)]


async def test_of_jobs_leased_in_advance_those_that_are_prepared_go_first(dispatcher: Dispatcher, hire: Hire) -> None:
    names = ["first", "slow", *(f"job-{index}" for index in range(MOST_PASSED + 2))]
    for name in names:
        await dispatcher.submit(measure_job(name))
    hire(ahead=True, measures=True)
    done = [report.job for report in await collect(dispatcher, len(names))]
    assert done == ["first", *names[2 : 2 + MOST_PASSED], "slow", *names[2 + MOST_PASSED :]], "it waits for so long"


async def test_a_worker_that_looks_ahead_does_every_job_once_and_no_cancelled_one(
    dispatcher: Dispatcher, hire: Hire
) -> None:
    await dispatcher.submit(order("first", "sleep 0.5"))
    await dispatcher.submit(trace_job("cancelled", "search-2"))
    for index in range(3):
        await dispatcher.submit(trace_job(f"job-{index}", "search-3"))
    hire(ahead=True)
    await taken(dispatcher, "first")
    await dispatcher.cancel("search-2")
    reports = await collect(dispatcher, 4)
    assert sorted(report.job for report in reports) == ["first", "job-0", "job-1", "job-2"]


async def test_a_killed_workers_job_is_done_by_another(dispatcher: Dispatcher, spawn: Spawn, tmp_path: Path) -> None:
    await dispatcher.submit(order("job-1", "sleep 2"))
    victim = spawn("victim")
    await taken(dispatcher, "job-1")
    victim.kill()
    spawn("heir")
    [report] = await collect(dispatcher)
    assert (report.job, report.worker, report.outcome) == ("job-1", "heir", Outcome.CORRECT)


async def test_a_terminated_worker_ends_well(dispatcher: Dispatcher, spawn: Spawn) -> None:
    await dispatcher.submit(order("job-1", "sleep 600"))
    worker = spawn("leaves")
    await taken(dispatcher, "job-1")
    benches = psutil.Process(worker.pid).children()
    worker.terminate()
    assert worker.wait(WAIT_S) == 0
    assert not any(bench.is_running() for bench in benches)


async def test_a_worker_outlasts_a_queue_that_restarts(tmp_path: Path, hire: Hire) -> None:
    async with EmbeddedServer(tmp_path) as server:
        dispatcher = Dispatcher(server.url)
        await dispatcher.submit(order("before", "sleep 1"))
        hire(url=server.url)
        await taken(dispatcher, "before")
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await persist(dispatcher.submit, trace_job("after"))
        reports = await persist(collect, dispatcher, 2)
        assert {report.job for report in reports} == {"before", "after"}
        await dispatcher.close()


async def test_a_worker_that_lacks_something_says_so(redis_url: str) -> None:
    lacking = '{"kind": "failure", "error": "ToolMissing: no card", "transient": false}'
    command = (sys.executable, str(HERE / "stand_in.py"), "w", "--greeting", lacking)
    worker = LeaseLoop(LeaseClient(redis_url, "w", target="sm_90"), {"trace": command})
    with pytest.raises(ToolMissing, match="no card"):
        worker.run()


async def test_a_real_worker_exports_a_reference_and_stops_when_asked(dispatcher: Dispatcher, redis_url: str) -> None:
    command = (sys.executable, "-m", "workers", "run", "--trace", "--device", "model:sm_90", "--id", "real")
    worker = subprocess.Popen(command, env={**os.environ, "REEF_REDIS_URL": redis_url}, cwd=ROOT)
    try:
        await dispatcher.submit(trace_job("job-1").model_copy(update={"source": None, "candidate": None}))
        [report] = await collect(dispatcher)
        assert (report.worker, report.outcome) == ("real", Outcome.CORRECT)
        [status] = await dispatcher.workers()
        assert (status.target, status.device) == ("sm_90", "model:sm_90")
        assert status.jail and {"torch", "triton"} <= status.versions.keys()
    finally:
        worker.terminate()
    assert worker.wait(WAIT_S) == 0
    assert await dispatcher.workers() == []


def test_a_worker_ends_with_its_parent(redis_url: str) -> None:
    command = (sys.executable, "-m", "workers", "run", "--trace", "--target", "sm_90", "--with-parent")
    parent = subprocess.Popen(
        (sys.executable, "-c", PARENT, *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "REEF_REDIS_URL": redis_url},
        cwd=ROOT,
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    while not worker.children():
        time.sleep(0.02)
    family = [worker, *worker.children(recursive=True)]
    parent.kill()
    parent.communicate()
    assert psutil.wait_procs(family, WAIT_S)[1] == []


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("run --trace --target sm_90", "no queue"),
        ("run --redis redis://x", "nothing to do"),
        ("run --redis redis://x --trace", "--trace needs --target"),
        ("run --redis redis://x --trace --target sm_1", "invalid choice"),
        ("run --redis redis://x --device h9000", "argument --device"),
        ("bench measure", "measure needs --device"),
        ("rest", "invalid choice"),
    ],
)
def test_wrong_usage_is_answered_with_advice(
    arguments: str, advice: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REEF_REDIS_URL", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert advice in capsys.readouterr().err
