"""Prompts for KernelBench's lot, and answers read back as kernels."""

import json
import lzma
from pathlib import Path

from benchmarks.kernelbench_answers import RECORDING, ask, lines_of, problems, question, recorded_kernels
from service.llm.base import LlmPrompt, digest
from service.operators.catalogue import load_operator
from tests.benchmarks.test_kernelbench_campaign import prepared

__all__ = ["prepared"]
KERNEL = "import torch\n\n\ndef doubled(x):\n    return torch.empty_like(x)\n"


def test_each_problem_of_the_lot_that_has_a_seed_is_asked_for(prepared: Path, tmp_path: Path) -> None:
    operators = list(problems(prepared, "default", prepared / "list.tsv"))
    assert ask(operators, tmp_path / "questions") == 1
    text = (tmp_path / "questions" / "level1_1_doubled.md").read_text()
    assert "doubled(x)" in text and "return x * 2" in text and "# Kernels" not in text
    asked = question(operators[0])
    assert text == f"{asked.system}\n\n{asked.user}"


def test_answers_become_kernels_and_unusable_ones_keep_their_fault(prepared: Path, tmp_path: Path) -> None:
    home = prepared / "default" / "level1_1_doubled"
    for number, text in (("1", f"```python\n{KERNEL}```\n"), ("2", "I cannot.")):
        (tmp_path / f"level1_1_doubled.{number}.answer.md").write_text(text)
    good, bad = lines_of([load_operator(home)], "default", tmp_path, "a model")
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
