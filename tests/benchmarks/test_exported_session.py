"""Sessions on a card: the order of searches, what is written at each step, and a whole one without a card."""

import json
import subprocess
import sys
import tarfile
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.exported_session import LEAST_BYTES, ROOT, Notes, pack, pinning, turns_of, unseen
from service.export.sampling import pool
from service.operators.catalogue import load_operator


def folders(state: Path) -> Path:
    for name in ("packages", "rows", "told", "rivals"):
        (state / name).mkdir(parents=True)
    return state


def test_each_operator_is_searched_before_any_rival_and_each_has_a_rival_before_one_has_two(tmp_path: Path) -> None:
    state = folders(tmp_path / "state")
    asked = Namespace(
        operators=["softmax", "examples/relu2_gate"], rivals=["softmax", "rmsnorm"], rival_shapes=2, state=state
    )
    turns = turns_of(asked)
    assert [turn.operator.name for turn in turns] == ["softmax", "relu2_gate"] + 2 * ["softmax", "rmsnorm"]
    assert [turn.sizes is None for turn in turns] == 2 * [True] + 4 * [False]
    assert turns[2].sizes is not None
    key = "_".join(f"{name}={size}" for name, size in turns[2].sizes.items())
    (state / "rivals" / f"softmax_{key}.json").write_text("{}")
    assert [turn.sizes for turn in turns_of(asked)[2:]] == [turn.sizes for turn in turns[3:]], "it is known by now"


def test_rivals_have_shapes_at_which_an_export_measures_nothing() -> None:
    operator = load_operator("softmax")
    exported = operator.model_copy(update={"baselines": ()})
    shapes = unseen(operator, 20)
    assert len(shapes) == 20 and not any(sizes in pool(exported) for sizes in shapes)
    assert min(operator.input_bytes(sizes) for sizes in shapes) >= LEAST_BYTES


def test_all_that_is_known_is_written_at_each_step_and_packed(tmp_path: Path) -> None:
    state, out = folders(tmp_path / "state"), tmp_path / "out"
    notes = Notes(out, state)
    (state / "rows" / "softmax.json").write_text('{"row": {"right": 4}}')
    notes.keep("search_softmax", {"evaluated": 7})
    known = json.loads((out / "rows.json").read_text())
    assert known == {"rows": [{"row": {"right": 4}}], "told": [{"name": "search_softmax", "evaluated": 7}]}
    (step,) = map(json.loads, (out / "session.jsonl").read_text().splitlines())
    assert step["step"] == "search_softmax" and step["at_s"] >= 0
    (state / "packages" / "softmax").mkdir()
    (state / "packages" / "softmax" / "README.md").write_text("# softmax")
    pack(state, out / "packages.tar.xz")
    with tarfile.open(out / "packages.tar.xz") as file:
        assert {"packages/softmax/README.md", "told/search_softmax.json"} <= set(file.getnames())
    assert pinning([3, 5]) == ("taskset", "-c", "3,5") and pinning([]) == ()


@pytest.mark.slow(reason="a search, an export and a check in processes of their own; the export's tests are quicker")
def test_a_session_without_a_card_goes_from_search_to_row(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.exported_session", "--device", "model:sm_90"]
    command += ["--operators", "examples/relu2_gate", "--rivals", "--evaluations", "2", "--shapes", "4"]
    command += ["--state", str(tmp_path / "state"), "--out", str(tmp_path / "out"), "--limit-s", "280"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300, capture_output=True)
    known = json.loads((tmp_path / "out" / "rows.json").read_text())
    assert [each["name"] for each in known["told"]] == ["export_relu2_gate", "search_relu2_gate"]
    (row,) = known["rows"]
    assert row["row"]["operator"] == "relu2_gate" and row["row"]["right"] == row["row"]["shapes"] == 4
    package = tmp_path / "state" / "packages" / "relu2_gate"
    assert (package / "sources" / "elite_0.py").exists()
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.exported_model", str(package), "--out", str(tmp_path)]
    command += ["--device", "cpu", "--backend", "aot_eager", "--batches", "1", "2", "--rounds", "1"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=200, capture_output=True)
    row = json.loads((tmp_path / "model.json").read_text())["row"]
    assert row["packages"] == ["relu2_gate"] and row["right"] == row["compared"] == 4
    assert row["served"] == {"1": [], "2": []}, "the kernels need a card"
