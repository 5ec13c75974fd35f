"""Cold samples and graphs of two sides in turn."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch

from benchmarks.cold_graphs import PlainGraph, median_bounds, over_draws, timed_in_time, warmed_up
from tests.benchmarks.paper_card import PaperEvent, spend

ROOT = Path(__file__).parents[2]


def test_a_flush_writes_all() -> None:
    program = (
        "import torch; from benchmarks.cold_graphs import flush_kernel; buffer = torch.full((4 * 4,), 5);"
        "flush_kernel[(3,)](buffer, 4); print(buffer.tolist())"
    )
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True, env=environment)
    assert json.loads(done.stdout) == [0] * 12 + [5] * 4


def test_a_median_lies_between_its_bounds_95_times_of_100() -> None:
    random, missed = Random(1), 0
    for _ in range(2000):
        drawn = sorted(random.gauss(0, 1) for _ in range(101))
        low, high = median_bounds(101)
        missed += not drawn[low] <= 0 <= drawn[high]
    assert 0.03 < missed / 2000 < 0.07


def test_kernels_are_warmed_up_on_the_stream_on_which_their_inputs_are_drawn(
    paper_card: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: pytest.fail("inputs may not be there on another stream"))
    warmed_up(lambda x: spend(paper_card, f"call {x}"), [5], "paper")
    assert paper_card == ["call 5"] * 3 + ["synchronize"]


def test_the_interval_over_draws_is_that_of_their_median() -> None:
    def draw(ratio: float) -> dict[str, object]:
        times = {"elite_us": 10.0 / ratio, "seed_us": 10.0, "low": 0.9 * ratio, "ratio": ratio, "high": 1.1 * ratio}
        return {**times, "pairs": 5, "late": 1, "calls": 2}

    each = [draw(ratio) | {"samples": {"all": draw(2 * ratio)}} for ratio in (1.0, 1.3, 1.1, 1.2, 1.05, 1.25)]
    found = over_draws(each)
    assert (found["low"], found["high"], found["pairs"], found["late"], found["draws"]) == (1.0, 1.3, 30, 6, 6)
    assert found["ratio"] == pytest.approx(1.15) and found["samples"]["all"]["ratio"] == pytest.approx(2.3)
    assert over_draws(each[:1]) == each[0]


def test_a_plain_graph_has_no_flags_and_is_uploaded_before_it_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[str, int | None]] = []

    def instantiate(made: object, graph: ctypes.c_void_p, flags: ctypes.c_ulonglong) -> int:
        ctypes.cast(made, ctypes.POINTER(ctypes.c_void_p))[0] = 77  # type: ignore[arg-type]
        log.append((f"instantiate with flags {flags.value}", graph.value))
        return 0

    def enqueue(name: str, status: int = 0) -> object:
        def done(executable: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
            log.append((f"{name} on {stream.value}", executable.value))
            return status

        return done

    driver = SimpleNamespace(
        cuGraphInstantiateWithFlags=instantiate, cuGraphUpload=enqueue("upload"), cuGraphLaunch=enqueue("launch")
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=9))
    graph = PlainGraph(SimpleNamespace(raw_cuda_graph=lambda: 5))
    graph()
    assert log == [("instantiate with flags 0", 5), ("upload on 9", 77), ("launch on 9", 77)]
    driver.cuGraphLaunch = enqueue("launch", 700)
    with pytest.raises(RuntimeError, match="status 700"):
        graph()


def test_a_sample_that_the_host_queued_late_is_timed_again(paper_card: list[str]) -> None:
    def call() -> None:
        spend(paper_card, "call")

    for late, tries, is_punctual in ((0, 1, True), (3, 4, True), (99, 5, False)):
        paper_card.clear()
        PaperEvent.late = late
        assert timed_in_time(lambda: None, call, "paper") == (1000.0, is_punctual)
        assert len(paper_card) == tries
