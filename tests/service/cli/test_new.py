"""`reef new` and one step from a Python file to an operator."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.new import _ask, description, operator_in_one_step, source_file, with_seed
from service.errors import Conflict, InvalidInput
from service.fleet.kernelbench import SourceFile
from service.operators.catalogue import load_operator
from tests.workers.kernelbench.files import FUNCTION, HINTED
from tests.workers.kernelbench.problems import LINEAR
from workers.protocol.kernelbench import ProblemInspection


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False, standalone_mode=False)
    assert result.exception is None
    return result.stdout


def test_a_function_becomes_a_folder_with_a_seed(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(FUNCTION)
    given = ("new", f"{tmp_path}/my.py:gated", "--out", str(tmp_path), "--vary", "rows")
    told = json.loads(run(*given, "--json").splitlines()[-1])
    assert told == {"operator": "gated", "folder": str(tmp_path / "gated"), "seeds": 2, "reason": ""}
    operator = load_operator(tmp_path / "gated")
    assert operator.entry == "gated" and dict(operator.ranges) == {"rows": (1, 64)} and operator.seeds
    assert description(operator) == [
        "gated(x: float32[rows, columns], weight: float32[columns], eps = 1e-05) -> y: float32",
        "sizes: rows = 64 (1 to 64); columns = 128",
    ]
    with pytest.raises(Conflict, match="exists"):
        run(*given)


def test_one_step_keeps_a_folder_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = SourceFile(HINTED, vary=())
    operator = operator_in_one_step(file, "model:sm_90", tmp_path)
    assert operator.name == "scaled" and operator.seeds and not operator.ranges
    said = capsys.readouterr().err
    assert "Inspecting it in a sandbox" in said
    assert f"edit it, and search with: reef search {tmp_path}/scaled" in " ".join(said.split())
    (tmp_path / "scaled" / "operator.toml").write_text("# edited\n")
    operator_in_one_step(file, "model:sm_90", tmp_path)
    assert (tmp_path / "scaled" / "operator.toml").read_text() == "# edited\n"
    assert with_seed(operator, "model:sm_90") is operator


def test_a_spec_may_name_a_file_and_something_in_it(tmp_path: Path) -> None:
    path = tmp_path / "7_Gemm.py"
    path.write_text(LINEAR)
    assert source_file(str(path)) == SourceFile(LINEAR, "problem_7_gemm")
    assert source_file(f"{path}:Model", "none") == SourceFile(LINEAR, "", "Model", ())
    assert source_file(str(path), "M, N") == SourceFile(LINEAR, "problem_7_gemm", vary=("M", "N"))
    assert source_file("rmsnorm") is None and source_file(str(tmp_path)) is None
    with pytest.raises(InvalidInput, match="does not exist"):
        source_file(f"{tmp_path}/absent.py")


def test_files_beside_the_file_are_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text("def twice(x):\n    return x * 2\n\n\ndef wrong(x):\n    return x.item()\n")
    body = "from near import twice, wrong\n\n\ndef scaled(x):\n    return {}(x)\n\n\n"
    examples = "def example_inputs():\n    import torch\n\n    return torch.randn(64, 32)\n"
    (tmp_path / "my.py").write_text(body.format("twice") + examples)
    file = source_file(f"{tmp_path}/my.py:scaled")
    assert file is not None
    operator = operator_in_one_step(file, "model:sm_90", seeded=False)
    assert "def twice(x):" in operator.reference and operator.entry == "scaled"
    (tmp_path / "my.py").write_text(body.format("wrong") + examples)
    file = source_file(f"{tmp_path}/my.py:scaled")
    assert file is not None
    with pytest.raises(InvalidInput, match=r"cannot be judged: near\.py, line 6: the problem raised"):
        operator_in_one_step(file, "model:sm_90", seeded=False)


SORTED = """
def sorted_rows(x: "float32[64, 8192]"):
    return x.sort(dim=-1, stable=True)[0]
"""


def test_a_file_without_a_seed_is_judged_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    operator = operator_in_one_step(SourceFile(SORTED), "model:sm_90", required=False)
    assert operator.entry == "sorted_rows" and not operator.seeds
    assert "note: no seed kernel to compare with: TorchInductor" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(InvalidInput, match="no seed kernel"):
        operator_in_one_step(SourceFile(SORTED), "model:sm_90")


@pytest.mark.parametrize(
    "answer, chosen", [("all\n", ("M", "N")), ("\n", ("M", "N")), ("none\n", ()), ("K\nN\n", ("N",))]
)
def test_the_sizes_that_vary_are_asked_for(answer: str, chosen: tuple[str, ...]) -> None:
    with CliRunner().isolation(input=answer):
        assert _ask(ProblemInspection(ranges={"M": (1, 8), "N": (1, 8)})) == chosen


def test_what_is_no_python_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no Python file"):
        run("new", "rmsnorm")
