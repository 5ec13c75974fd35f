"""The script that judges rogues and honest kernels on a card, tried out on the `model` device."""

import json

import pytest

from benchmarks import card
from benchmarks.card import MeasurementSetup, judge, over_pacer
from benchmarks.figures import FigureRows, TimeAllowance
from tests.gpu.benches import measuring
from tests.gpu.honest import Honest, authored_kernels
from tests.gpu.rogues import load_rogues
from workers.protocol import Device, Outcome, ShapeResult

DEVICE = Device.parse("model:sm_90")
PLACE = MeasurementSetup(DEVICE, measuring(DEVICE), 1, 1)


def written(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def test_a_file_is_whole_after_every_row(tmp_path):
    figures = FigureRows(tmp_path, "some")
    figures.add({"a": 1}, "one")
    assert written(tmp_path, "some")["rows"] == [{"a": 1}]
    figures.add({"a": 2}, "two")
    figures.conclude(sum=3)
    document = written(tmp_path, "some")
    assert (document["rows"], document["sum"]) == ([{"a": 1}, {"a": 2}], 3)
    assert {"machine", "versions", "date", "command"} <= set(document)
    assert [path.name for path in tmp_path.iterdir()] == ["some.json"]


def test_an_allowance_ends():
    assert not TimeAllowance(60.0).spent
    assert TimeAllowance(-1.0).spent


def test_times_over_the_pacer_need_both():
    assert over_pacer(ShapeResult(shape="M=1", mid_us=2.0, low_us=1.0, high_us=3.0)) is None
    paced = ShapeResult(shape="M=1", mid_us=2.0, low_us=1.0, high_us=3.0, pacer_us=2.0)
    assert over_pacer(paced) == {"low": 0.5, "mid": 1.0, "high": 1.5}


def test_judgements_of_several_cards_are_joined(tmp_path, monkeypatch):
    for lane, found in (("a", {"x": True, "y": False, "z": None}), ("b", {"y": True})):
        figures = FigureRows(tmp_path / lane, "card_judgements")
        for kernel, as_expected in found.items():
            figures.add({"kind": "honest", "kernel": kernel, "as_expected": as_expected}, lane)
        figures.add({"kind": "rogue", "kernel": f"r{lane}", "as_expected": True}, lane)
        figures.conclude(machine=lane)
    files = [str(tmp_path / lane / "card_judgements.json") for lane in ("a", "b")]
    monkeypatch.setattr("sys.argv", ["card", "--out", str(tmp_path), "--kinds", "honest", "--rows", *files])
    card.main()
    joined = written(tmp_path, "card_judgements")
    assert joined["counts"] == {"honest": {"rows": 3, "as_expected": 2, "not_judged": 1}}
    assert {row["kernel"]: row["as_expected"] for row in joined["rows"]} == {"x": True, "y": True, "z": None}
    assert joined["machine"] == "b", "where the rows were measured, and not where they are joined"


def test_honest_texts_that_do_not_compile_are_no_kernels():
    honest, rogue = authored_kernels()["gelu/seed"], load_rogues()["flag_memo"]
    expected = {
        (kernel.name, outcome): card._verdict(kernel, outcome, "", None)["as_expected"]
        for kernel in (honest, rogue)
        for outcome in (Outcome.COMPILE_ERROR, Outcome.WRONG_RESULT)
    }
    assert list(expected.values()) == [None, False, False, True]


@pytest.mark.slow
def test_benches_judge_operators_beside_each_other(tmp_path):
    kernels = [authored_kernels()[f"{name}/seed"] for name in ("gelu", "swiglu", "softmax")]
    figures = FigureRows(tmp_path, "card_judgements")
    judge(kernels, MeasurementSetup(DEVICE, measuring(DEVICE), 2, 1, repeat=2), figures, 300.0)
    document = written(tmp_path, "card_judgements")
    assert {row["kernel"]: row["outcome"] for row in document["rows"]} == {each.name: "correct" for each in kernels}
    assert (document["benches"], document["counts"]["honest"]["as_expected"]) == (2, 2 * len(kernels))


@pytest.mark.slow
def test_judgements_and_what_follows_from_them(tmp_path):
    broken = Honest("gelu/broken", "gelu", "def gelu(x:\n")
    kernels = [load_rogues()["flag_memo"], authored_kernels()["gelu/seed"], broken]
    figures = FigureRows(tmp_path, "card_judgements")
    judge(kernels, PLACE, figures, 300.0)
    rows = written(tmp_path, "card_judgements")["rows"]
    assert [(row["kernel"], row["outcome"], row["as_expected"]) for row in rows] == [
        ("flag_memo", "wrong_result", True),
        ("gelu/seed", "correct", True),
        ("gelu/broken", "syntax_error", False),
    ]
    assert written(tmp_path, "card_judgements")["counts"]["honest"] == {"rows": 2, "as_expected": 1, "not_judged": 0}


@pytest.mark.slow
def test_what_was_not_judged_for_want_of_time_is_said(tmp_path):
    figures = FigureRows(tmp_path, "card_judgements")
    judge([authored_kernels()["gelu/seed"]], PLACE, figures, -1.0)
    (row,) = figures.rows
    assert (row["outcome"], row["as_expected"], row["reason"]) == ("not_judged", None, "no time was left")
