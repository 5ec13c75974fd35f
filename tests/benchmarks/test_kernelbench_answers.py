"""Prompts for KernelBench's lot, and answers read back as kernels."""

import json
import lzma
from pathlib import Path

from benchmarks.kernelbench_answers import RECORDING, ask, lines_of, lost, problems, questions, recorded_kernels
from service.llm.base import LlmPrompt, digest
from service.operators.catalogue import load_operator
from tests.benchmarks.test_kernelbench_campaign import prepared

__all__ = ["prepared"]
KERNEL = "import torch\n\n\ndef doubled(x):\n    return torch.empty_like(x)\n"
ROW = {
    "kind": "row",
    "row": "level1/1_Doubled.py default model",
    "operator": "level1_1_doubled",
    "session": 1.0,
    "contract": "default",
    "how": "model",
    "shape": "M=8",
    "source": "# the best\n",
    "configuration": {},
    "reef_us": 5.0,
    "reef_low_us": 4.9,
    "reef_high_us": 5.1,
    "floor_us": 2.0,
    "ratios": {"compile": {"low": 0.8, "mid": 0.9, "high": 1.0}},
    "answered": [
        {"number": 1, "outcome": "correct", "reason": ""},
        {"number": 2, "outcome": "precision", "reason": "y is 2, expected 3"},
    ],
}


def test_each_problem_of_the_lot_that_has_a_seed_is_asked_for(prepared: Path, tmp_path: Path) -> None:
    (operator,) = problems(prepared, "default", prepared / "list.tsv")
    prompts = list(questions(operator, None, ()))
    assert ask([(operator, prompts)], tmp_path / "questions") == 1
    text = (tmp_path / "questions" / "level1_1_doubled.scratch.md").read_text()
    assert "doubled(x)" in text and "return x * 2" in text and "# Kernels" not in text
    ((name, asked),) = prompts
    assert name == "scratch" and text == f"{asked.system}\n\n{asked.user}"


def test_what_lost_is_asked_for_again_to_improve_and_to_repair(prepared: Path) -> None:
    won = {**ROW, "ratios": {"compile": {"low": 1.1, "mid": 1.2, "high": 1.3}}}
    assert lost([ROW], "default") and not lost([won], "default") and not lost([ROW], "strict")
    operator = load_operator(prepared / "default" / "level1_1_doubled")
    (row,) = lost([ROW], "default").values()
    repair, improve = (asked.user for _, asked in questions(operator, row, ["# one\n", "# two\n"]))
    assert "# two" in repair and "y is 2, expected 3" in repair and "# one" not in repair
    assert "# the best" in improve and "0.800 times as fast" in improve and "y is 2, expected 3" in improve
    wrong = {**ROW, "source": None, "ratios": {}}
    assert [name for name, _ in questions(operator, wrong, ["# one\n", "# two\n"])] == ["repair-2"]


def test_answers_become_kernels_and_unusable_ones_keep_their_fault(prepared: Path, tmp_path: Path) -> None:
    operator = load_operator(prepared / "default" / "level1_1_doubled")
    ask([(operator, list(questions(operator, None, ())))], tmp_path)
    for number, text in (("1", f"```python\n{KERNEL}```\n"), ("2", "I cannot.")):
        (tmp_path / f"level1_1_doubled.scratch.{number}.answer.md").write_text(text)
    good, bad = lines_of([operator], "default", tmp_path, "a model")
    assert good["source"].strip() == KERNEL.strip() and good["fault"] == ""
    assert bad["source"] is None and bad["fault"]
    assert good["prompt"] == digest(LlmPrompt(**good["asked"])) and good["completion"]["model"] == "a model"
    with lzma.open(tmp_path / "recording.xz", "wt") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in (good, bad))
    assert recorded_kernels(tmp_path / "recording.xz", "default") == {"level1_1_doubled": (good["source"],)}
    assert recorded_kernels(tmp_path / "recording.xz", "strict") == {"level1_1_doubled": ()}
    assert recorded_kernels(tmp_path / "none.xz", "default") == {}


def test_the_recorded_answers_belong_to_their_prompts() -> None:
    with lzma.open(RECORDING, "rt") as file:
        lines = [json.loads(line) for line in file]
    assert lines and all(line["prompt"] == digest(LlmPrompt(**line["asked"])) for line in lines)
