"""Local workers are there when a search needs them, come back when they crash, and go when we go."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from service.fleet.pool import JoinInvitation, WorkerPool, WorkerStart
from tests.service.listing import list_cards
from tests.workers.queue.samples import trace_job
from workers.protocol import CardShare, Device
from workers.queue import DISMISSED, Dispatcher

ROOT = Path(__file__).parents[3]
STAND_IN = (sys.executable, str(ROOT / "tests/workers/stand_in_worker.py"))
DEVICE = "model:sm_90"
WAIT_S = 60.0

OWNER = """
import asyncio, sys
from service.fleet.pool import JoinInvitation, WorkerPool, WorkerStart

async def main():
    pool = WorkerPool(sys.argv[1], size=1, start=WorkerStart(sys.argv[2:]))
    await pool.require("model:sm_90")
    while not pool.pids:
        await asyncio.sleep(0.02)
    print(*pool.pids, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)


@pytest.fixture
async def pool(redis_url: str) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(redis_url, size=2, start=WorkerStart(STAND_IN), first_pause_s=0.05)
    yield pool
    await pool.close()


async def workers(redis_url: str, count: int) -> set[str]:
    """Wait until exactly so many workers are listed."""
    dispatcher = Dispatcher(redis_url)
    async with asyncio.timeout(WAIT_S):
        while len(known := {status.id for status in await dispatcher.workers()}) != count:
            await asyncio.sleep(0.02)
    await dispatcher.close()
    return known


def command_lines(pool: WorkerPool) -> list[list[str]]:
    """What was started; until that is the case, a process has the command line of this one."""
    own = psutil.Process().cmdline()
    while own in (found := [psutil.Process(pid).cmdline() for pid in pool.pids]):
        time.sleep(0.01)
    return found


async def started(pool: WorkerPool, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while len(pool.pids) != count:
            await asyncio.sleep(0.02)


async def test_workers_are_there_when_they_are_needed(pool: WorkerPool, redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    await dispatcher.submit(trace_job("job-1"))
    await pool.require(DEVICE)
    async with asyncio.timeout(WAIT_S):
        while not (deliveries := await dispatcher.collect(block_ms=100)):
            pass
    await dispatcher.close()
    assert [delivery.report.job for delivery in deliveries] == ["job-1"]


async def test_the_same_need_starts_no_more_workers(pool: WorkerPool, redis_url: str) -> None:
    for _ in range(3):
        await pool.require(DEVICE)
    await started(pool, 2)
    before = pool.pids
    await workers(redis_url, 2)
    assert pool.pids == before


async def test_models_are_measured_by_those_who_trace(pool: WorkerPool) -> None:
    await pool.require(DEVICE)
    await started(pool, 2)
    assert all(line[2:7] == ["--trace", "--target", "sm_90", "--device", DEVICE] for line in command_lines(pool))


async def test_a_card_of_this_machine_gets_one_worker_beside_those_who_trace(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S", "NVIDIA H200", "NVIDIA H200")
    for _ in range(2):
        await pool.require("h200")
    await started(pool, 3)
    lines = sorted(line[2:6] for line in command_lines(pool))
    tracing = ["--trace", "--target", "sm_90", "--with-parent"]
    assert lines == [["--device", "h200", "--card", "cuda:1"], tracing, tracing]


async def test_a_card_that_is_shared_gets_as_many_workers_as_share_it(pool: WorkerPool) -> None:
    pool.keep_measuring(Device.parse("h200"), CardShare(1, 3))
    await started(pool, 3)
    assert all(line[2:6] == ["--device", "h200", "--card", "cuda:1/3"] for line in command_lines(pool))


async def test_one_worker_opens_a_card_before_the_others_start(pool: WorkerPool, redis_url: str) -> None:
    pool.keep_measuring(Device.parse("h200"), CardShare(1, 3))
    (first,) = await workers(redis_url, 1)
    await started(pool, 3)
    assert first in await workers(redis_url, 3)


async def test_workers_of_a_card_start_although_the_first_fails(redis_url: str, tmp_path: Path) -> None:
    fails = (sys.executable, "-c", "raise SystemExit(1)")
    pool = WorkerPool(redis_url, size=1, start=WorkerStart(fails, tmp_path / "log"), first_pause_s=0.05)
    pool.keep_measuring(Device.parse("h200"), CardShare(0, 2))
    async with asyncio.timeout(WAIT_S):
        assert "the measure worker exited with status 1" in await pool.wait_failing()
    await pool.close()


async def test_as_many_workers_share_a_card_of_this_machine_as_were_wanted(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA H200")
    pool = WorkerPool(redis_url, size=1, sharers=2, start=WorkerStart(STAND_IN), first_pause_s=0.05)
    try:
        await pool.require("h200")
        await started(pool, 3)
        measuring = [line[2:6] for line in command_lines(pool) if "--card" in line]
        assert measuring == 2 * [["--device", "h200", "--card", "cuda:0/2"]]
    finally:
        await pool.close()


async def test_a_card_that_is_elsewhere_is_left_to_others(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S")
    await pool.require("h200")
    await started(pool, 2)
    assert all("--trace" in line and "--device" not in line for line in command_lines(pool))
    assert "a remote worker has to measure" in capsys.readouterr().out


async def test_the_password_is_on_no_command_line(pool: WorkerPool, redis_url: str) -> None:
    await pool.require(DEVICE)
    await started(pool, 2)
    assert not any(redis_url in part for line in command_lines(pool) for part in line)


async def test_a_crashed_worker_is_replaced(pool: WorkerPool, redis_url: str) -> None:
    await pool.require(DEVICE)
    first = await workers(redis_url, 2)
    victim = min(pool.pids)
    os.kill(victim, signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        while await workers(redis_url, 2) == first:
            await asyncio.sleep(0.02)
    assert victim not in pool.pids


async def test_closing_ends_every_worker_and_leaves_no_lease(pool: WorkerPool, redis_url: str) -> None:
    dispatcher = Dispatcher(redis_url)
    await dispatcher.submit(trace_job("job-1").model_copy(update={"source": "sleep 600"}))
    await pool.require(DEVICE)
    async with asyncio.timeout(WAIT_S):
        while not any(status.busy for status in await dispatcher.workers()):
            await asyncio.sleep(0.02)
    family = [each for pid in pool.pids for each in (psutil.Process(pid), *psutil.Process(pid).children())]
    await pool.close()
    assert psutil.wait_procs(family, WAIT_S)[1] == []
    assert await dispatcher.workers() == [] and await dispatcher.outstanding("search-1") == {"job-1"}
    await dispatcher.close()


def test_workers_end_with_a_killed_owner(redis_url: str) -> None:
    owner = subprocess.Popen((sys.executable, "-c", OWNER, redis_url, *STAND_IN), stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    family = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    owner.kill()
    owner.communicate()
    assert family and psutil.wait_procs(family, WAIT_S)[1] == []


async def test_an_empty_pool_starts_nothing(redis_url: str) -> None:
    pool = WorkerPool(redis_url, size=0, start=WorkerStart(STAND_IN))
    for device in (DEVICE, "h200"):
        await pool.require(device)
    await asyncio.sleep(0.05)
    assert pool.pids == set()
    await pool.close()


async def test_what_workers_log_goes_where_it_is_wanted(redis_url: str, tmp_path: Path) -> None:
    output = tmp_path / "workers.log"
    pool = WorkerPool(
        redis_url, size=1, start=WorkerStart((sys.executable, "-c", "raise SystemExit('no luck')"), output)
    )
    await pool.require(DEVICE)
    async with asyncio.timeout(WAIT_S):
        while not output.exists() or "no luck" not in output.read_text():
            await asyncio.sleep(0.02)
    await pool.close()
    assert pool.pids == set()


async def test_workers_that_do_not_start_say_why(redis_url: str, tmp_path: Path) -> None:
    broken = (sys.executable, "-c", "import no_such_module")
    pool = WorkerPool(redis_url, size=2, start=WorkerStart(broken, tmp_path / "workers.log"), first_pause_s=0.05)
    await pool.require(DEVICE)
    async with asyncio.timeout(WAIT_S):
        reason = await pool.wait_failing()
    assert reason.startswith(f"the trace worker exited with status 1; see {tmp_path / 'workers.log'}: ")
    assert "No module named 'no_such_module'" in reason
    assert pool.failing == (reason,)
    await pool.close()


async def test_a_worker_that_was_ready_and_crashes_does_start(redis_url: str, pool: WorkerPool) -> None:
    pool.keep((), 1)
    for _ in range(3):
        (known,) = await workers(redis_url, 1)
        os.kill(int(known.rpartition("-")[2]), signal.SIGKILL)
        async with asyncio.timeout(WAIT_S):
            while known in await workers(redis_url, 1):
                await asyncio.sleep(0.05)
    assert pool.failing == ()


async def test_a_worker_that_the_service_does_not_want_is_not_started_again(redis_url: str) -> None:
    refused = (sys.executable, "-c", f"raise SystemExit({DISMISSED})")
    pool = WorkerPool(
        JoinInvitation("https://reef.example", "reef_token"), size=2, start=WorkerStart(refused), first_pause_s=0.05
    )
    pool.keep((), 2)
    async with asyncio.timeout(WAIT_S):
        await pool.dismissed()
    assert pool.pids == set()
    await pool.close()


async def test_who_joins_gets_the_token_and_no_address_of_the_queue(tmp_path: Path) -> None:
    told = tmp_path / "told"
    text = (
        "import os, sys; open(sys.argv[1], 'w').write(f\"{sys.argv[2:]} {os.environ.get('REEF_TOKEN')}\"); sys.exit(4)"
    )
    pool = WorkerPool(
        JoinInvitation("https://reef.example", "reef_secret"), size=1, start=WorkerStart((sys.executable, "-c", text))
    )
    pool.keep((str(told), "--trace"), 1)
    async with asyncio.timeout(WAIT_S):
        await pool.dismissed()
    await pool.close()
    said = told.read_text()
    assert "'--join', 'https://reef.example'" in said and said.endswith("reef_secret")
    assert "reef_secret" not in said.removesuffix("reef_secret")
    assert "reef_secret" not in repr(JoinInvitation("https://reef.example", "reef_secret"))
