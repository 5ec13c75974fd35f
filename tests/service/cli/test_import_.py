"""`reef import kernelbench` writes folders of operators, and says which problems it could not take and why."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.import_ import problem_files
from service.errors import InvalidInput
from service.operators.catalogue import load_operator
from tests.workers.kernelbench.problems import LINEAR, forward


def test_a_folder_of_problems_becomes_folders_of_operators(tmp_path: Path) -> None:
    level = tmp_path / "level1"
    level.mkdir()
    (level / "10_Gemm.py").write_text(LINEAR)
    (level / "2_Dropout.py").write_text(forward("return torch.dropout(x, 0.5, True)"))
    (level / "notes.py").write_text("x = 1\n")
    written = tmp_path / "operators"
    result = CliRunner().invoke(
        app, ["import", "kernelbench", str(level), "--out", str(written), "--no-seeds", "--json"]
    )
    rows = json.loads(result.stdout.splitlines()[-1])
    assert [row["operator"] for row in rows] == [None, "level1_10_gemm"], "in the order of their numbers"
    assert "draws random numbers" in rows[0]["reason"] and "draws random numbers" in result.stderr
    operator = load_operator(written / "level1_10_gemm")
    assert operator.entry == "level1_10_gemm" and len(operator.inputs) == 5


@pytest.mark.parametrize(
    "made, said", [(None, "does not exist"), ("x = 1\n", "defines no Model"), ("", "has no KernelBench")]
)
def test_what_holds_no_problem_is_refused(tmp_path: Path, made: str | None, said: str) -> None:
    path = tmp_path if made == "" else tmp_path / "problem.py"
    if made:
        path.write_text(made)
    with pytest.raises(InvalidInput, match=said):
        problem_files(path)


def test_a_target_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no target 'sm_1'"):
        CliRunner().invoke(
            app,
            ["import", "kernelbench", str(tmp_path), "--target", "sm_1"],
            catch_exceptions=False,
            standalone_mode=False,
        )
