"""Elites of a zip file are timed in a process of its own, which imports nothing of ours."""

import json
import os
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch

from benchmarks.independent_harness import ShapeInputs, ShapeTimer, median_bounds, timed_in_time

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "independent_harness.py"
SEED = "import torch\n\n\ndef double(x, by):\n    return (x * by).float()\n"
SLOW = "import torch\n\n\ndef double(x, by):\n    for _ in range(20):\n        y = x * by\n    return y\n"
OPERATOR = {
    "name": "double",
    "entry": "double",
    "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32", "low": 0.0, "high": 1.0}],
    "scalars": [{"name": "by", "dtype": "int", "value": 2}],
    "shapes": [{"dims": {"N": 1 << 18}, "weight": 1.0}, {"dims": {"N": 1 << 16}, "weight": 3.0}],
    "seeds": [SEED],
}


def exported(path: Path, *, provenance: str = "measured", source: str = SLOW) -> Path:
    """A zip file with one elite, as `reef export` writes it."""
    timed = [
        {"shape": f"N={shape['dims']['N']}", "mid_us": 1.0, "samples": {"calls": 1}}
        for shape in OPERATOR["shapes"]  # type: ignore[attr-defined]
    ]
    elite = {"cell": 7, "candidate": "c", "objective": 1.1, "files": ["h200/cell-00007/certificate.json"]}
    verdict = {"kind": "confirm", "over_pacer": {"mid": 1.0}, "shapes": timed}
    files = {
        "operator.json": OPERATOR,
        "manifest.json": {"devices": [{"provenance": provenance, "elites": [elite]}]},
        "h200/cell-00007/certificate.json": {"source": source, "configuration": {}, "verdict": verdict},
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, document in files.items():
            file.writestr(name, json.dumps(document))
    return path


def run(folder: Path, *archives: Path, more: tuple[str, ...] = ()) -> dict[str, object]:
    """Run the script alone, outside the repository."""
    command = [sys.executable, "-I", str(SCRIPT), *map(str, archives), *more]
    command += ["--device", "cpu", "--seconds", "0.3", "--processes", "2", "--out", "out.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads((folder / "out.json").read_text())
    return found


def test_an_elite_is_timed_beside_its_seed_and_compared_with_its_report(tmp_path: Path) -> None:
    found = run(tmp_path, exported(tmp_path / "one.zip"))
    [row] = found["rows"]  # type: ignore[misc]
    assert row["confirmed"] and set(row["shapes"]) == {"N=262144", "N=65536"}
    assert 0.0 < row["independent"] < 0.7, "twenty times the work"
    for timed in row["shapes"].values():
        assert timed["low"] <= timed["ratio"] <= timed["high"] and timed["pairs"] >= 2
        assert timed["seed_us"] < timed["elite_us"]
        assert timed["ratio"] < 0.9, "of pairs, so not the ratio of the medians where others use the cores"
        shares = {name: each["written"] for name, each in timed["samples"].items()}
        assert shares == {"all": 1.0, "judge": 1.0, "own": 0.5, "none": 0.0}, "it writes as much as it reads"
        assert all(each["calls"] == 1 and each["ratio"] < 0.9 for each in timed["samples"].values())
    assert row["difference_percent"] == pytest.approx(100 * (row["independent"] - 1))
    assert (found["compared"], found["within_half_percent"]) == (1, 0)
    assert found["largest_percent"] == pytest.approx(abs(row["difference_percent"]))


def test_predicted_elites_are_left_out_and_kernels_that_do_not_run_are_rows(tmp_path: Path) -> None:
    broken = exported(tmp_path / "broken.zip", source="def double(x, by):\n    raise ValueError('no')\n")
    found = run(tmp_path, broken, exported(tmp_path / "model.zip", provenance="predicted"), more=("--forms", "own"))
    [row] = found["rows"]  # type: ignore[misc]
    assert (row["error"], row["candidate"]) == ("ValueError: no", "c") and found["compared"] == 0


@pytest.mark.parametrize("written", [0, 2, 5, 8])
def test_a_flush_writes_a_share_that_is_evenly_spread(written: int) -> None:
    program = (
        "import torch; from benchmarks.independent_harness import flush_kernel; buffer = torch.full((16 * 4,), 5);"
        f"flush_kernel[(16,)](buffer, {written}, 4, 8); print(buffer.view(16, 4).tolist())"
    )
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(SCRIPT.parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True, env=environment)
    blocks = json.loads(done.stdout)
    assert sum(block == [0] * 4 for block in blocks) == 2 * written
    assert sum(block == [5] * 4 for block in blocks) == 16 - 2 * written, "what is read stays as it is"
    for start in range(0, 16, 4):
        assert sum(block == [0] * 4 for block in blocks[start : start + 4]) in (written // 2, -(-written // 2))


def test_a_median_lies_between_its_bounds_95_times_of_100() -> None:
    random, missed = Random(1), 0
    for _ in range(2000):
        drawn = sorted(random.gauss(0, 1) for _ in range(101))
        low, high = median_bounds(101)
        missed += not drawn[low] <= 0 <= drawn[high]
    assert 0.03 < missed / 2000 < 0.07


def test_it_imports_nothing_of_ours() -> None:
    rooms = ("service", "workers", "archive", "benchmarks", "kernelreef")
    lines = [line.split() for line in SCRIPT.read_text().splitlines() if line.startswith(("import ", "from "))]
    assert lines and not {words[1].split(".")[0] for words in lines} & set(rooms)


class PaperEvent:
    """An event of a card that runs nothing by itself; `late` counts down the starts that the host was late for."""

    late = 0
    now = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = PaperEvent.now

    def query(self) -> bool:
        PaperEvent.late -= 1
        return PaperEvent.late >= 0

    def synchronize(self) -> None:
        """Wait for nothing."""

    def elapsed_time(self, other: "PaperEvent") -> float:
        return other.at - self.at


@pytest.fixture
def paper_card(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A card on paper, and what is enqueued on it: every call of `double` takes a millisecond."""
    log: list[str] = []
    for name in ("Stream", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: spend(log, "graph")))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: log.append(f"hold {cycles}"))
    monkeypatch.setattr(torch.cuda, "Event", PaperEvent)
    monkeypatch.setattr(PaperEvent, "late", 0)
    return log


def spend(log: list[str], name: str) -> None:
    log.append(name)
    PaperEvent.now += 1.0


class Flushing:
    """A flush that says what it writes."""

    bytes = 64

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __call__(self, share: float) -> None:
        self._log.append(f"flush {share}")

    def release(self) -> None:
        self._log.append("release")


@pytest.mark.parametrize(("calls", "timed"), [(1, ["hold 800000", "call"]), (2, ["hold 100000", "graph"])])
def test_samples_begin_as_the_judges_do(paper_card: list[str], calls: int, timed: list[str]) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        spend(paper_card, "call")
        return x * 2

    halves = tuple([[torch.ones(8)] for _ in range(4)] for _ in range(2))
    timer = ShapeTimer(double, double, ShapeInputs(halves, 2, 0.5), Flushing(paper_card), "paper")
    paper_card.clear()
    found = timer.samples(calls, {"all": 1.0, "judge": 1.0, "own": 0.5}, 0.0)
    assert {name: (each["calls"], each["pairs"], each["late"]) for name, each in found.items()} == dict.fromkeys(
        found, (calls, 2, 0)
    )
    samples = [line for line in paper_card if line != "call"] if calls == 2 else paper_card
    each = 8
    assert samples[-4 * each :] == ["release", "flush 0.5", *timed] * each
    assert samples[4 * each : -4 * each] == ["release", *["flush 1.0", *timed] * each], "one release in a round"
    assert found["own"]["elite_us"] == 1000 / calls
    assert all((copy[0] == 1).all() for half in halves for copy in half), "written again with the values that they had"


def test_a_sample_that_the_host_queued_late_is_timed_again(paper_card: list[str]) -> None:
    def call() -> None:
        spend(paper_card, "call")

    for late, tries, is_punctual in ((0, 1, True), (3, 4, True), (99, 5, False)):
        paper_card.clear()
        PaperEvent.late = late
        assert timed_in_time(lambda: None, call, "paper") == (1000.0, is_punctual)
        assert len(paper_card) == tries
