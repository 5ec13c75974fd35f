"""`reef operators` lists the catalogue and says what is wrong with a spec."""

import json
from pathlib import Path

from typer.testing import CliRunner

from service.cli import app
from service.errors import BadInput

CATALOGUE = {"softmax", "rmsnorm", "layernorm", "cross_entropy", "swiglu", "gelu", "rope", "matmul", "attention"}


def test_the_list_holds_the_catalogue() -> None:
    result = CliRunner().invoke(app, ["operators", "--json"])
    assert {operator["name"] for operator in json.loads(result.stdout)} == CATALOGUE
    assert "rmsnorm(x, weight)" in CliRunner().invoke(app, ["operators"], env={"COLUMNS": "200"}).stdout


def test_one_operator_shows_its_arguments_and_reference() -> None:
    shown = CliRunner().invoke(app, ["operators", "show", "attention"]).stdout
    assert "causal" in shown and "def attention" in shown


def test_a_wrong_spec_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "operator.toml").write_text('name = "Bad Name"\nentry = "f"\n')
    result = CliRunner().invoke(app, ["operators", "show", str(tmp_path / "operator.toml")])
    assert isinstance(result.exception, BadInput)
