"""`reef operators` lists the catalogue and says what is wrong with a spec."""

import json
from pathlib import Path

from typer.testing import CliRunner

from service.cli import app
from service.errors import InvalidInput

CATALOGUE = {spec.parent.name for spec in (Path(__file__).parents[3] / "operators").glob("*/operator.toml")}


def test_the_list_holds_the_catalogue() -> None:
    result = CliRunner().invoke(app, ["operators", "--json"])
    assert {operator["name"] for operator in json.loads(result.stdout)} == CATALOGUE
    assert "rmsnorm(x, weight)" in CliRunner().invoke(app, ["operators"], env={"COLUMNS": "200"}).stdout


def test_one_operator_shows_its_arguments_and_reference() -> None:
    shown = CliRunner().invoke(app, ["operators", "show", "attention"]).stdout
    assert "causal" in shown and "def attention" in shown


SPEC = """
name = "{name}"
entry = "f"
reference = "reference.py"
[[inputs]]
name = "x"
shape = ["M", "N"]
dtype = "float32"
[[outputs]]
name = "y"
dtype = "float32"
[[shapes]]
M = 64
N = 64
[ranges]
M = [1, 64]
"""


def spec(folder: Path, name: str, result: str) -> str:
    (folder / name).mkdir()
    (folder / name / "operator.toml").write_text(SPEC.format(name=name))
    (folder / name / "reference.py").write_text(f"def f(x):\n    return {result}\n")
    return str(folder / name)


def test_a_check_tells_what_was_tried_and_what_survived(tmp_path: Path) -> None:
    double, nothing, broken = (
        spec(tmp_path, name, text)
        for name, text in {"double": "x * 2", "nothing": "x * 0", "broken": "x.item()"}.items()
    )
    result = CliRunner().invoke(app, ["operators", "check", double, nothing, broken, "--json"])
    assert result.exit_code == 4
    gates = {gate["operator"]: gate for gate in json.loads(result.stdout)}
    assert {name: gate["verdict"] for name, gate in gates.items()} == {
        "double": "passed", "nothing": "failed", "broken": "failed"
    }  # fmt: skip
    survived = {entry["name"] for entry in gates["nothing"]["entries"] if entry["verdict"] == "survived"}
    assert survived == {"zeros", "first row for all", "right answer to other inputs"}
    assert "does not export" in gates["broken"]["reason"]
    shown = CliRunner().invoke(app, ["operators", "check", double])
    assert shown.exit_code == 0
    assert {"double", "passed", "mutants"} <= set(shown.stdout.split())  # Headers wrap in narrow terminals.


def test_a_wrong_spec_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "operator.toml").write_text('name = "Bad Name"\nentry = "f"\n')
    result = CliRunner().invoke(app, ["operators", "show", str(tmp_path / "operator.toml")])
    assert isinstance(result.exception, InvalidInput)


def test_a_seed_by_inductor_is_printed_as_a_candidate(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["operators", "seed", spec(tmp_path, "double", "x * 2")])
    assert printed.exit_code == 0 and "def f(x):" in printed.stdout and "@triton.jit" in printed.stdout


def test_why_there_is_no_seed(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["operators", "seed", spec(tmp_path, "least", "x.cfloat().abs()")])
    assert isinstance(refused.exception, InvalidInput) and "TorchInductor calls" in refused.exception.detail
    unknown = CliRunner().invoke(app, ["operators", "seed", "gelu", "--target", "sm_1"])
    assert isinstance(unknown.exception, InvalidInput) and unknown.exception.field == "target"
