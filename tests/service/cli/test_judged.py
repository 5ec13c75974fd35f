"""`reef judge` prints one verdict, with the exit code that belongs to it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.catalogue import load_catalogue
from service.cli import app
from service.errors import BadInput

KEYS = {
    "outcome",
    "reason",
    "line",
    "device",
    "trust",
    "provenance",
    "speedup",
    "plan",
    "coordinates",
    "stages_s",
    "variants",
}


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "gelu.py"
    path.write_text(load_catalogue()["gelu"].seeds[0])
    return path


def test_a_correct_candidate_is_one_object_on_one_line_and_exit_code_0(seed: Path) -> None:
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed), "--json"])
    verdict = json.loads(result.stdout)
    assert result.exit_code == 0, verdict
    assert result.stdout.count("\n") == 1 and verdict.keys() == KEYS
    assert (verdict["outcome"], verdict["device"], verdict["provenance"]) == ("correct", "model:sm_90", "predicted")
    assert verdict["speedup"].keys() == {"low", "mid", "high"} and len(verdict["plan"]) == 64


def test_an_incorrect_candidate_is_a_result_and_exit_code_4(seed: Path) -> None:
    seed.write_text("import os\n" + seed.read_text())
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed), "--json"])
    verdict = json.loads(result.stdout)
    assert (result.exit_code, verdict["outcome"], verdict["line"]) == (4, "forbidden_import", 1)
    assert verdict["speedup"] is None and verdict["plan"] is None
    text = CliRunner().invoke(app, ["judge", "gelu", str(seed)]).stdout
    assert "forbidden_import" in text and "os" in text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["gelu", "missing.py"], "CANDIDATE"),
        (["gelu", "SEED", "--device", "toaster"], "--device"),
        (["gelu", "SEED", "--device", "model:sm_1"], "--device"),
        (["gelu", "SEED", "--device", "h200"], "--device"),
    ],
)
def test_bad_input_names_what_was_wrong(arguments: list[str], field: str, seed: Path) -> None:
    arguments = [str(seed) if argument == "SEED" else argument for argument in arguments]
    result = CliRunner().invoke(app, ["judge", *arguments])
    assert isinstance(result.exception, BadInput) and result.exception.field == field


def test_a_file_that_is_no_text_is_refused(seed: Path) -> None:
    seed.write_bytes(b"\xff\xfe\x00")
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed)])
    assert isinstance(result.exception, BadInput) and "UTF-8" in result.exception.detail
