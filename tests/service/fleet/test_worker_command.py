"""`reef worker`: which processes a machine gets, and that they stop when they are asked to."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from service.errors import InvalidInput
from service.fleet.worker_command import WorkerCommand, plan_workers
from tests.service.listing import list_cards
from workers.protocol import CardShare, Device
from workers.queue import Dispatcher

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0
MACHINE = """
import asyncio, sys
from pathlib import Path
from service.fleet.pool import WorkerStart
from service.fleet.worker_command import WorkerCommand, run_workers
from workers.protocol import Device, CardShare

plan = WorkerCommand(("--trace", "--target", "sm_90"), 2, ((Device.parse("h200"), CardShare()),))
asyncio.run(run_workers(plan, sys.argv[1], Path("data"), WorkerStart(sys.argv[2:])))
"""


@pytest.fixture(autouse=True)
def two_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA H200", "Tesla T4")


def plan(
    trace: int = 0, target: str | None = None, cards: tuple[str, ...] = (), device: str | None = None
) -> WorkerCommand:
    return plan_workers(trace=trace, target=target, cards=cards, device=device)


def test_a_card_gets_a_worker_that_measures_and_its_target_is_traced_for() -> None:
    h200 = Device.parse("h200")
    assert plan(cards=("cuda:0",)) == WorkerCommand((), 0, ((h200, CardShare(0)),))
    assert plan(cards=("cuda:0/3",)) == WorkerCommand((), 0, ((h200, CardShare(0, 3)),))
    assert plan(trace=6, cards=("cuda:0",)) == WorkerCommand(
        ("--trace", "--target", "sm_90"), 6, ((h200, CardShare(0)),)
    )


def test_tracers_trace_for_what_is_said_and_may_judge_on_a_model() -> None:
    assert plan(trace=2, target="sm_80") == WorkerCommand(("--trace", "--target", "sm_80"), 2, ())
    both = ("--trace", "--target", "sm_90", "--device", "model:sm_90")
    assert plan(trace=3, device="model:sm_90") == WorkerCommand(both, 3, ())
    assert plan(device="model:sm_90") == WorkerCommand(("--device", "model:sm_90"), 1, ())


@pytest.mark.parametrize(
    ("wanted", "field", "advice"),
    [
        ({}, None, "nothing to do"),
        ({"trace": 1}, "--target", "--trace needs --target"),
        ({"trace": 1, "target": "sm_1"}, "--target", "known: "),
        ({"cards": ("0",)}, "--measure", "cuda:0"),
        ({"cards": ("cuda:2",)}, "--measure", "here: cuda:0 is h200"),
        ({"cards": ("cuda:1",)}, "--measure", "cuda:1 is 'Tesla T4', without a class"),
        ({"cards": ("cuda:0", "cuda:0/2")}, "--measure", "named twice"),
        ({"device": "toaster"}, "--device", "no class of NVIDIA cards"),
        ({"device": "h200"}, "--device", "--measure cuda:0"),
    ],
)
def test_what_cannot_be_right_names_its_option(wanted: dict[str, object], field: str | None, advice: str) -> None:
    with pytest.raises(InvalidInput, match=advice) as caught:
        plan(**wanted)
    assert caught.value.field == field


async def test_all_run_until_they_are_asked_to_stop(redis_url: str) -> None:
    stand_in = (sys.executable, str(ROOT / "tests/workers/stand_in_worker.py"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    machine = subprocess.Popen((sys.executable, "-c", MACHINE, redis_url, *stand_in), env=environment, cwd=ROOT)
    dispatcher = Dispatcher(redis_url)
    async with asyncio.timeout(WAIT_S):
        while len(await dispatcher.workers()) < 3:
            await asyncio.sleep(0.05)
    family = psutil.Process(machine.pid).children(recursive=True)
    told = [line for child in family if (line := child.cmdline()) and "--data" in line]
    assert [line[2:8] for line in told] == [["--device", "h200", "--card", "cuda:0", "--data", "data"]]
    machine.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(machine.wait, WAIT_S) == 0
    assert psutil.wait_procs(family, WAIT_S)[1] == [] and await dispatcher.workers() == []
    await dispatcher.close()
