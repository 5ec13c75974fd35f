"""`reef judge` prints one verdict, with the exit code that belongs to it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.judge import in_words
from service.errors import InvalidInput
from service.evaluation.single import Judgement, VariantJudgement
from service.operators.catalogue import load_catalogue
from tests.service import records
from tests.service.listing import list_cards
from tests.workers.kernelbench.files import FUNCTION
from workers.protocol import Device, Outcome, Ratio, ShapeResult, Trust

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
    "admitted",
    "unpaced",
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
    seed.write_text("from sys import *\n" + seed.read_text())
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed), "--json"])
    verdict = json.loads(result.stdout)
    assert (result.exit_code, verdict["outcome"], verdict["line"]) == (4, "forbidden_import", 1)
    assert verdict["speedup"] is None and verdict["plan"] is None
    text = CliRunner().invoke(app, ["judge", "gelu", str(seed)]).stdout
    assert "forbidden_import" in text and "'sys'" in text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["gelu", "missing.py"], "CANDIDATE"),
        (["gelu", "SEED", "--device", "toaster"], "--device"),
        (["gelu", "SEED", "--device", "model:sm_1"], "--device"),
        (["gelu", "SEED", "--device", "h200"], "--device"),
    ],
)
def test_bad_input_names_what_was_wrong(
    arguments: list[str], field: str, seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S")
    arguments = [str(seed) if argument == "SEED" else argument for argument in arguments]
    result = CliRunner().invoke(app, ["judge", *arguments])
    assert isinstance(result.exception, InvalidInput) and result.exception.field == field


def test_a_machine_without_the_card_says_which_it_has(
    seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S")
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed), "--device", "h200"])
    assert isinstance(result.exception, InvalidInput)
    assert result.exception.detail == "h200: this machine does not have it; here: cuda:0 is l40s"


@pytest.mark.parametrize(
    ("device", "gain", "times"),
    [
        ("model:sm_90", "1.200x the seed, predicted", []),
        (
            "h200",
            "1.200x to 1.300x the best baseline, MEASURED on h200, trust B",
            ["  N=1024: 4.00 us (3.90 to 4.10); eager 9.00 us, compile 5.00 us"],
        ),
    ],
)
def test_a_speedup_says_over_what_and_whether_it_was_measured(device: str, gain: str, times: list[str]) -> None:
    baselines = {"eager": 9.0, "compile": 5.0}
    shape = ShapeResult(shape="N=1024", baselines_us=baselines, low_us=3.9, mid_us=4.0, high_us=4.1)
    report = records.report({}, device=Device.parse(device), shapes=(shape,), trust=Trust.B)
    speedup = Ratio(low=1.2, mid=1.25, high=1.3)
    variant = VariantJudgement(0, {"BLOCK": 64}, Outcome.CORRECT, "", None, speedup=speedup, report=report)
    judgement = Judgement(report.device, Outcome.CORRECT, "", None, (variant,), {"time": 0.5})
    assert in_words(judgement) == [f"  variant 0 {{'BLOCK': 64}}: {gain}", *times, f"on {device}; time 0.50 s"]


def test_times_stand_beside_a_copy_of_the_same_bytes() -> None:
    readings = records.readings().model_copy(update={"bytes_required": 4_800_000})
    times = {"low_us": 3.9, "mid_us": 4.0, "high_us": 4.1}
    shape = ShapeResult(shape="N=1024", baselines_us={"eager": 9.0}, readings=readings, copy_us=1.25, **times)
    report = records.report({}, device=Device.parse("h200"), shapes=(shape,), trust=Trust.B)
    variant = VariantJudgement(0, {}, Outcome.CORRECT, "", None, speedup=Ratio(low=2, mid=2, high=2), report=report)
    told = in_words(Judgement(report.device, Outcome.CORRECT, "", None, (variant,), {}))
    assert told[1].endswith("eager 9.00 us; a copy of its bytes takes 1.25 us, 1.00 us at the peak bandwidth")


def test_the_sizes_of_a_python_file_that_vary_are_named(seed: Path, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(FUNCTION)
    result = CliRunner().invoke(app, ["judge", f"{tmp_path}/my.py:gated", str(seed), "--vary", "heads"])
    assert isinstance(result.exception, InvalidInput)
    assert "'heads' is no size that may vary; those are: rows" in result.exception.detail


def test_a_file_that_is_no_text_is_refused(seed: Path) -> None:
    seed.write_bytes(b"\xff\xfe\x00")
    result = CliRunner().invoke(app, ["judge", "gelu", str(seed)])
    assert isinstance(result.exception, InvalidInput) and "UTF-8" in result.exception.detail
