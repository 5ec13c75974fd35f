"""`reef search` refuses what cannot be right before anything starts; `tests/journeys` runs whole searches."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.errors import InvalidInput, NotFound
from tests.workers.kernelbench.problems import forward


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["no_such_operator"], None),
        (["rmsnorm", "--evaluations", "0"], "evaluations"),
        (["rmsnorm", "--seed", "-1"], "seed"),
        (["rmsnorm", "--emitters", ","], "emitters"),
        (["rmsnorm", "--emitters", "magic"], "emitters"),
        (["rmsnorm", "--device", "recorded:mi300x"], "devices"),
        (["rmsnorm", "--stop", "plateau=0"], "stop.plateau"),
        (["rmsnorm", "--stop", "plateau=9", "--stop", "luck=7"], "stop.luck"),
    ],
)
def test_what_cannot_be_right_names_its_option(arguments: list[str], field: str | None, tmp_path: Path) -> None:
    environment = {"REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0"}
    result = CliRunner().invoke(app, ["search", *arguments], env=environment)
    assert isinstance(result.exception, InvalidInput), result.output
    assert field is None or result.exception.field == field


@pytest.mark.parametrize("command", ["search", "submit"])
def test_a_problem_that_cannot_be_judged_is_not_searched_for(command: str, tmp_path: Path) -> None:
    (tmp_path / "1_Dropout.py").write_text(forward("return torch.dropout(x, 0.5, True)"))
    environment = {"REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0"}
    for asked in (["--kernelbench", str(tmp_path / "1_Dropout.py")], [str(tmp_path / "1_Dropout.py")]):
        result = CliRunner().invoke(app, [command, *asked], env=environment)
        assert isinstance(result.exception, InvalidInput) and "draws random numbers" in result.exception.detail


def test_a_python_file_without_inputs_is_told_how_to_give_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(x):\n    return x * 2\n")
    for name, said, field in (("mine.py", "example_inputs()", "problem"), ("missing.py", "does not exist", "SPEC")):
        result = CliRunner().invoke(app, ["submit", str(tmp_path / name)], env={"REEF_DATA_DIR": str(tmp_path)})
        assert isinstance(result.exception, InvalidInput) and said in result.exception.detail
        assert result.exception.field == field


def test_a_search_that_is_submitted_needs_something_to_search_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["submit"], env={"REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0"})
    assert isinstance(result.exception, InvalidInput) and result.exception.field == "operator"


def test_a_search_that_is_not_there_cannot_be_resumed(tmp_path: Path) -> None:
    environment = {"REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0"}
    assert isinstance(CliRunner().invoke(app, ["search", "--resume", "nothing"], env=environment).exception, NotFound)
