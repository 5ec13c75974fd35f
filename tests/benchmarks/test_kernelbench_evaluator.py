"""KernelBench's evaluator beside ours: what its verdicts become, and what we say of published cheats."""

import argparse
import asyncio
import time
from contextlib import suppress
from fcntl import LOCK_NB, LOCK_SH, flock
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import kernelbench_evaluator
from benchmarks.kernelbench_evaluator import (
    Evaluation,
    agreement,
    compared,
    evaluated,
    in_a_process,
    load_cheats,
    our_results,
    our_verdict,
    share_card,
    solutions_of,
    told_of,
)
from workers.gpu_lock import GpuLock
from workers.protocol import Device, Outcome

CHEATS = {cheat.name: cheat for cheat in load_cheats()}
MODEL = Device.parse("model:sm_90")
QUICK = ("caller_frame", "side_stream")


def theirs(row: str, *, correct: bool | None, speedup: float | None = None) -> dict[str, object]:
    return {"row": row, "correct": correct, "their_speedup": speedup, "metadata": {}}


def test_times_are_told_in_microseconds_and_exceptions_as_text() -> None:
    said = {
        "compiled": True,
        "correctness": True,
        "runtime": 0.5,
        "ref_runtime": 1.0,
        "metadata": {"e": ValueError("x")},
    }
    told = told_of(said)
    assert (told["their_us"], told["their_eager_us"], told["their_speedup"]) == (500.0, 1000.0, 2.0)
    assert told["metadata"] == {"e": "x"} and not told["excessive_speedup"]
    assert told_of(said | {"runtime": -1.0})["their_us"] is None


def test_agreement_is_of_verdicts_and_of_the_side_of_one() -> None:
    ours = {"outcome": "correct", "reef_us": 1.0, "eager_us": 2.0, "speedup": {"eager": {"mid": 2.0}}}
    rows = [
        compared(theirs("a", correct=True, speedup=1.5), ours),
        compared(theirs("b", correct=False), ours),
        compared(theirs("c", correct=None), ours),
        compared(theirs("d", correct=True), {"outcome": None}),
    ]
    told = agreement(rows)
    assert (told["solutions"], told["judged"], told["agree"], told["disagree"]) == (4, 2, 1, ["b"])
    assert told["same_side_of_1"] == told["timed"] == 1 and told["speedup_ratio_quartiles"][2] == 0.75
    assert list(told["failed"]) == ["c", "d"]


def test_solutions_are_found_by_the_names_of_their_problems(tmp_path: Path) -> None:
    home = tmp_path / "default" / "rules"
    home.mkdir(parents=True)
    (home / "level1_19_relu.py").touch()
    (home / "level1_20_other.py").touch()
    found = list(solutions_of(tmp_path, ["level1/19_ReLU.py"]))
    assert [each[:3] for each in found] == [("level1/19_ReLU.py", "default", "rules")]


def test_a_model_s_kernels_have_verdicts_of_ours_and_come_last(tmp_path: Path) -> None:
    row = {"problem": "level1/19_ReLU.py", "contract": "default", "how": "model", "outcome": "correct"}
    found = our_results([row | {"answered": [{"number": 2, "outcome": "race"}]}])
    assert found["level1/19_ReLU.py default answer-2"]["outcome"] == "race"
    for how in ("answer-2", "model", "rules"):
        (tmp_path / "default" / how).mkdir(parents=True)
        (tmp_path / "default" / how / "level1_19_relu.py").touch()
    assert [each[2] for each in solutions_of(tmp_path, ["level1/19_ReLU.py"])] == ["model", "rules", "answer-2"]


def test_inputs_are_drawn_on_the_card_and_timing_has_it_alone(tmp_path: Path) -> None:
    """While one evaluation is timed no other uses the card."""
    mine, seen = GpuLock("a", tmp_path), list[str]()
    (room,) = tmp_path.glob("*-room.lock")

    def look(name: str) -> None:
        with room.open() as file, suppress(BlockingIOError):
            flock(file, LOCK_SH | LOCK_NB)
            seen.append(f"{name}: shared")
            return
        seen.append(f"{name}: alone")

    theirs = SimpleNamespace(
        load_original_model_and_inputs=lambda _: ("model", "initial", lambda: torch.rand(1)),
        timing=SimpleNamespace(get_timing_function=lambda _: lambda: look("timing")),
    )
    share_card(theirs, mine, torch.device("meta"))
    with mine.shared():
        assert theirs.load_original_model_and_inputs("problem")[2]().is_meta and not torch.rand(1).is_meta
        look("check")
        theirs.timing.get_timing_function("cuda_event")()
    mine.close()
    assert seen == ["check: shared", "timing: alone"]


def test_an_evaluator_that_dies_has_a_row(tmp_path: Path) -> None:
    row = in_a_process(tmp_path, "", "", narrow=False)
    assert row["correct"] is None and row["metadata"] == {"failed": "its process died"}


def test_no_evaluation_outlasts_the_time_and_what_it_cuts_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def evaluate(*texts: object, wall_s: float, **_: object) -> dict[str, object]:
        given.append(wall_s)
        if texts[1] == "slow":
            time.sleep(wall_s)
        return {"correct": None if texts[1] == "slow" else True, "metadata": {}}

    monkeypatch.setattr(kernelbench_evaluator, "in_a_process", evaluate)
    options = argparse.Namespace(minutes=0.3 / 60, cards="0", processes=1, checkout=Path())
    due = [Evaluation({"row": name}, name, "") for name in ("quick", "slow", "late")]
    assert [row["row"] for row in evaluated(options, due)] == ["quick"]
    assert len(given) == 2 and max(given) <= 0.3


def test_every_cheat_names_its_source_and_verdicts_that_exist() -> None:
    known = {outcome.value for outcome in Outcome} | {"not_admitted"}
    assert len(CHEATS) >= 10 and set(QUICK) <= CHEATS.keys()
    for cheat in CHEATS.values():
        assert cheat.ours <= known and cheat.published and cheat.kernelbench and "class ModelNew" in cheat.source


@pytest.mark.parametrize("name", QUICK)
def test_published_cheats_are_refused(name: str) -> None:
    outcome, reason = asyncio.run(our_verdict(CHEATS[name], MODEL))
    assert outcome in CHEATS[name].ours and outcome != "correct", reason


@pytest.mark.slow(reason="each is imported, drafted and judged; two of them are judged above")
@pytest.mark.parametrize("name", sorted(CHEATS.keys() - set(QUICK)))
def test_all_published_cheats_get_the_verdict_that_they_name(name: str) -> None:
    outcome, reason = asyncio.run(our_verdict(CHEATS[name], MODEL))
    assert outcome in CHEATS[name].ours, reason
