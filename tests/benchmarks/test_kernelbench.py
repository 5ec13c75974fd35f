"""The table of imports: rows of what was prepared are taken over, and only what is missing is found out."""

import json
from pathlib import Path

import pytest

from benchmarks.kernelbench import LATE, ProblemRun, prepared_rows, summary, tabulate
from benchmarks.kernelbench_prepare import GATE, NO_SEED, NOT_PREPARED, PREPARED
from service.fleet.kernelbench import NO_RANGE
from workers.protocol import MutationReport

SPEC = f"""# Made from a Python file, whose text is in reference.py.
# 'K' {NO_RANGE}
name = "NAME"
entry = "doubled"
reference = "reference.py"
shapes = [{{M = 8, K = 4}}]
[[inputs]]
name = "x"
shape = ["M", "K"]
dtype = "float32"
[[outputs]]
name = "y"
dtype = "float32"
[ranges]
M = [1, 8]
"""


def line(name: str, **told: object) -> str:
    head = {"problem": f"level1/{name}.py", "contract": "default", "operator": name, "seeds": 0, "reason": ""}
    return json.dumps({**head, "prepare_s": 1.5, **told}) + "\n"


def operator(folder: Path, name: str) -> Path:
    home = folder / "default" / name
    home.mkdir(parents=True)
    (home / "reference.py").write_text("def doubled(x):\n    return x * 2\n")
    (home / "operator.toml").write_text(SPEC.replace("NAME", name))
    return home


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Folder with a problem that has a seed, one without, one that is none, one that failed, and a strict one."""
    report = MutationReport(verdict="passed")
    (operator(tmp_path, "seeded") / GATE).write_text(report.model_dump_json())
    operator(tmp_path, "unseeded")
    lines = [
        line("seeded", seeds=2, gate="passed"),
        line("unseeded", reason=f"{NO_SEED}too long"),
        line("refused", reason="draws random numbers"),
        line("failed", reason=f"{NOT_PREPARED}the process ended"),
        line("seeded", contract="strict", seeds=1),
    ]
    (tmp_path / PREPARED).write_text("".join(lines))
    return tmp_path


def test_what_was_prepared_is_a_row_and_what_failed_is_tried_anew(prepared: Path) -> None:
    rows = prepared_rows(prepared)
    assert set(rows) == {"level1/seeded.py", "level1/unseeded.py", "level1/refused.py"}
    seeded = rows["level1/seeded.py"]
    assert seeded["seed"] and seeded["exported"] and seeded["gate"]["verdict"] == "passed"
    assert seeded["dims"] == {"M": 8, "K": 4} and seeded["ranges"] == {"M": [1, 8]}
    assert seeded["ranges_without_seed"] == ["K"] and seeded["seconds"] == {"prepare": 1.5}
    assert rows["level1/unseeded.py"]["no_seed"] == "too long" and "exported" not in rows["level1/unseeded.py"]
    assert rows["level1/refused.py"]["reason"] == "draws random numbers"
    assert summary(list(rows.values()))["level1"] == {
        "problems": 3,
        "imported": 2,
        "imported tried": 3,
        "exported": 1,
        "exported tried": 2,
        "seed": 1,
        "seed tried": 3,
        "gate passed": 1,
    }


def test_stages_that_have_their_answer_are_not_passed_again(prepared: Path, tmp_path: Path) -> None:
    row = prepared_rows(prepared)["level1/seeded.py"]
    missing = tmp_path / "level1" / "seeded.py"
    missing.parent.mkdir()
    missing.write_text("no problem at all")
    problem = ProblemRun(missing, row)
    problem.go(("import", "export", "seed", "gate"))
    assert problem.row == row
    anew = ProblemRun(missing, {})
    anew.go(("import", "export"))
    assert anew.row["reason"] and "imported" not in anew.row


def test_a_mutation_test_that_others_slowed_down_is_made_again(prepared: Path, tmp_path: Path) -> None:
    row = prepared_rows(prepared)["level1/seeded.py"]
    late = row | {"gate": {"verdict": "untried", "reason": f"the process {LATE} 40 s"}}
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "seeded.py").write_text("no problem at all")
    problem = ProblemRun(tmp_path / "level1" / "seeded.py", late)
    assert "gate" not in problem.row and ProblemRun(tmp_path / "level1" / "seeded.py", row).row == row
    problem.go(("gate",))
    assert problem.row["reason"]  # It is imported for that, which fails here.


def test_rows_of_an_earlier_day_give_way_to_what_was_prepared(prepared: Path, tmp_path: Path) -> None:
    rows, result = prepared_rows(prepared), tmp_path / "result.json"
    old = {"problem": "level1/seeded.py", "seconds": {}, "imported": False}
    result.write_text(json.dumps({"rows": [old | {"date": "2026-11-27"}, old | {"problem": "level1/refused.py"}]}))
    found = tabulate([], ("import",), result, rows)
    assert found["level1/seeded.py"]["imported"] and not found["level1/refused.py"]["imported"]
