"""Elites of a zip file are timed in a process of its own, which imports nothing of ours."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from benchmarks import agreement
from benchmarks.independent_harness import BROKEN, ShapeInputs, ShapeTimer
from benchmarks.shifted_places import ShiftedMemory, TorchMemory
from tests.benchmarks.paper_card import spend

ROOT = Path(__file__).parents[2]
SCRIPTS = [ROOT / "benchmarks" / f"{name}.py" for name in ("independent_harness", "cold_graphs", "shifted_places")]
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


def exported(path: Path, *, provenance: str = "measured", source: str = SLOW, name: str = "double") -> Path:
    """A zip file with one elite, as `reef export` writes it."""
    timed = [
        {"shape": f"N={shape['dims']['N']}", "mid_us": 1.0, "samples": {"calls": 1}}
        for shape in OPERATOR["shapes"]  # type: ignore[attr-defined]
    ]
    elite = {"cell": 7, "candidate": f"c of {name}", "objective": 1.1, "files": ["h200/cell-00007/certificate.json"]}
    verdict = {"kind": "confirm", "over_pacer": {"mid": 1.0}, "shapes": timed}
    files = {
        "operator.json": OPERATOR | {"name": name},
        "manifest.json": {"devices": [{"provenance": provenance, "elites": [elite]}]},
        "h200/cell-00007/certificate.json": {"source": source, "configuration": {}, "verdict": verdict},
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, document in files.items():
            file.writestr(name, json.dumps(document))
    return path


def run(folder: Path, *archives: Path, more: tuple[str, ...] = (), status: int = 0) -> dict[str, object]:
    """Run the module in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.independent_harness", *map(str, archives)]
    command += ["--device", "cpu", "--seconds", "0.2", "--processes", "2", "--out", str(folder / "out.json"), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status, done.stderr
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
        for form in (timed, timed["shifted"]):
            assert set(form["samples"]) == {"all", "judge"}
            assert all(each["calls"] == 1 and each["ratio"] < 0.9 for each in form["samples"].values())
        assert timed["shifted"]["low"] <= timed["shifted"]["ratio"] < 0.9
    assert row["difference_percent"] == pytest.approx(100 * (row["independent"] - 1))
    assert (found["compared"], found["within_half_percent"]) == (1, 0)
    assert found["largest_percent"] == pytest.approx(abs(row["difference_percent"]))


def test_predicted_elites_are_left_out_and_kernels_that_do_not_run_are_rows(tmp_path: Path) -> None:
    broken = exported(tmp_path / "broken.zip", source="def double(x, by):\n    raise ValueError('no')\n")
    found = run(tmp_path, broken, exported(tmp_path / "model.zip", provenance="predicted"), more=("--forms", "all"))
    [row] = found["rows"]  # type: ignore[misc]
    assert (row["error"], row["candidate"]) == ("ValueError: no", "c of double") and found["compared"] == 0


def test_elites_are_timed_in_another_order_and_all_of_one_that_was_begun(tmp_path: Path) -> None:
    archives = [exported(tmp_path / f"{name}.zip", name=name) for name in ("one", "two", "three")]
    found = run(tmp_path, *archives, more=("--first", "three/7", "--limit", "0"))
    assert [row["operator"] for row in found["rows"]] == ["three"]  # type: ignore[attr-defined]


def test_it_imports_nothing_of_ours() -> None:
    rooms = ("service", "workers", "archive", "benchmarks", "kernelreef")
    lines = [line.split() for path in SCRIPTS for line in path.read_text().splitlines()]
    modules = {words[1] for words in lines if words[:1] in (["import"], ["from"])} - {
        f"benchmarks.{path.stem}" for path in SCRIPTS
    }
    assert len(modules) > 10 and not {name.split(".")[0] for name in modules} & set(rooms)


def test_after_an_error_of_the_card_the_others_are_timed_by_a_new_process(tmp_path: Path) -> None:
    error = "CUDA error: an illegal memory access was encountered"
    source = f"def double(x, by):\n    raise RuntimeError({error!r})\n"
    archives = [exported(tmp_path / "bad.zip", source=source, name="bad"), exported(tmp_path / "one.zip", name="one")]
    [row] = run(tmp_path, *archives, status=BROKEN)["rows"]  # type: ignore[misc]
    assert row["error"] == f"RuntimeError: {error}" and agreement.BROKEN == BROKEN
    both = run(tmp_path, *archives, more=("--resume",))["rows"]
    assert [each["operator"] for each in both] == ["bad", "one"] and both[0] == row  # type: ignore[attr-defined]
    assert both[1]["shapes"]["N=65536"]["shifted"]["pairs"] >= 2  # type: ignore[index]


def test_elites_that_are_first_have_several_draws_of_places_and_plain_samples(tmp_path: Path) -> None:
    found = run(tmp_path, exported(tmp_path / "one.zip"), more=("--first", "double/7", "--draws", "3"))
    [row] = found["rows"]  # type: ignore[misc]
    for timed in row["shapes"].values():
        assert timed["shifted"]["draws"] == 3 and "draws" not in timed
        for form in (timed, timed["shifted"]):
            assert list(form["samples"]) == ["all", "judge", "plain"]
        assert all(each["draws"] == 3 and each["pairs"] >= 6 for each in timed["shifted"]["samples"].values())


class Flushing:
    """A flush that says what it writes."""

    bytes = 64

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __call__(self) -> None:
        self._log.append("flush")

    def release(self) -> None:
        self._log.append("release")


@pytest.mark.parametrize(("calls", "timed"), [(1, ["hold 800000", "call"]), (2, ["hold 100000", "graph"])])
@pytest.mark.parametrize(("memory", "graphs"), [(TorchMemory(), 2), (ShiftedMemory("cpu", 3), 12)])
def test_samples_begin_as_the_judges_do(
    paper_card: list[str], calls: int, timed: list[str], memory: TorchMemory | ShiftedMemory, graphs: int
) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        spend(paper_card, "call")
        return x * 2

    halves = tuple([[torch.ones(8)] for _ in range(4)] for _ in range(2))
    timer = ShapeTimer(double, double, ShapeInputs(halves, 2, 64), Flushing(paper_card), "paper", memory)
    paper_card.clear()
    found = timer.samples(calls, ["all", "judge"], 0.0)
    assert {name: (each["calls"], each["pairs"], each["late"]) for name, each in found.items()} == dict.fromkeys(
        found, (calls, 2, 0)
    )
    enqueued = [line for line in paper_card if line != "call" or calls == 1]
    every = enqueued[enqueued.index("release") :]
    number, one = 2 * graphs + 4, ["flush", *timed]
    as_judge = [line for sample in range(number) for line in (["release", *one] if sample % 24 == 0 else one)]
    assert every == [*["release", *one] * number, *as_judge], "one release in a round"
    assert found["all"]["elite_us"] == 1000 / calls
    assert all((copy[0] == 1).all() for half in halves for copy in half), "written again with the values that they had"
