"""Rounds of an executor are recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.observed_executor import CardReadings, Observer, observe
from tests.gpu.benches import BENCH
from tests.workers.devices import desk, raced
from tests.workers.queue.samples import confirm_job
from workers.commands import Reset
from workers.devices.card_processes import CardProcesses
from workers.devices.cuda import CudaDevice


def test_every_round_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer(tmp_path / "rounds.jsonl", "usual", lambda: {"sm_mhz": 1980}, "job")
    replay = desk.Desk.replay

    def watched(self: desk.Desk, order, *given, **options):
        observer.sent(order)
        reply = replay(self, order, *given, **options)
        observer.answered(order, reply)
        return reply

    monkeypatch.setattr(desk.Desk, "replay", watched)
    with raced.raced() as (trial, _):
        timing = raced.timing_of(trial)
    lines = [json.loads(line) for line in observer.path.read_text().splitlines()]
    said = {tuple(line[name] for name in ("condition", "job", "operator", "shape", "control")) for line in lines}
    assert said == {("usual", "job", "gelu", raced.SHAPE.key, False)}
    assert all(line["card"] == {"sm_mhz": 1980} for line in lines)
    whole = [
        us
        for line in lines
        for side, calls, us in zip(line["sides"], line["calls"], line["us"], strict=True)
        if side == "c" and calls == timing.calls
    ]
    assert len(whole) == len(timing.candidate_us) + 2, "two pairs warm up"
    assert whole[2:] == pytest.approx(timing.candidate_us, abs=1e-3)


def test_no_readings_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.observed_executor.NVML", "libno-such-library.so.1")
    assert CardReadings("0000:18:00.0").read() == {}


def test_orders_pass_an_observer_and_jobs_are_known_to_it(tmp_path: Path) -> None:
    class Processes(CardProcesses):
        def _ask_runner(self, order, limit_s):
            return (order.order, limit_s)

    class Cuda(CudaDevice):
        def confirm(self, job):
            return f"report on {job.id}"

    observer = Observer(tmp_path / "rounds.jsonl", read=lambda: {})
    observe(observer, Processes, Cuda)
    assert Processes._ask_runner(object.__new__(Processes), Reset(), 1.0) == ("scrub", 1.0)
    assert Cuda.confirm(object.__new__(Cuda), confirm_job("j")) == "report on j" and observer.job == "j"


def test_it_is_an_executor(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "benchmarks.observed_executor", "--rounds", str(tmp_path / "rounds.jsonl")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for each in (command, [*BENCH, "measure"]):
        done = subprocess.run(
            [*each, "--device", "model:sm_90"],
            env=environment,
            input=b"",
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0 and json.loads(done.stdout.splitlines()[0])["kind"] == "ready", done.stderr
