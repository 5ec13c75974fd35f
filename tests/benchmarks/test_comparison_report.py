"""What follows from rows that were compared: the mean and its interval, what is lost, the table and the plot."""

import json
import xml.etree.ElementTree as ElementTree
from math import sqrt
from pathlib import Path

import pytest

from benchmarks.bars import RatioBar, draw
from benchmarks.comparison_report import best, conclude, lines_of, summary, table
from benchmarks.figures import FigureRows


def row(name, ratio, half, **more):
    times = {"reef_us": 10.0, "eager_us": 100.0, "compile_us": 10.0 * ratio, "floor_share": 0.8}
    head = {"kind": "row", "row": name, "session": 1.0, "state": "stopped", "reason": "", "objective": 1.0}
    found = {"over_best": ratio, "over_best_half_width": half, "best_baseline": "compile", "search_s": 30.0}
    return {**head, **times, **found, **more}


LINES = [
    {"kind": "rates", "card": 0},
    {"kind": "row", "row": "a", "state": "stopped", "reason": "", "objective": 1.0},
    row("a", 2.0, 0.01),
    row("b", 0.5, 0.01),
    row("c", 1.005, 0.01),
    {"kind": "row", "row": "d", "state": "stopped", "reason": "", "objective": 1.0},
    {"kind": "row", "row": "d", "state": "stopped", "reason": "baselines ended", "objective": 1.0},
    {"kind": "row", "row": "a", "state": "not reached", "reason": "no time was left"},
]


def test_the_line_that_knows_most_counts():
    assert [each["row"] for each in best(LINES)] == ["a", "b", "c", "d"]
    first, *_, last = best(LINES)
    assert first["over_best"] == 2.0 and last["reason"] == "baselines ended"


def test_of_two_runs_the_fastest_kernel_is_held_against_the_fastest_baseline():
    slow = row("a", 1.2, 0.01, reef_us=10.0, compile_us=12.0)
    fast = row("a", 1.5, 0.01, reef_us=9.0, compile_us=13.5, max_autotune_us=14.0)
    for lines in ([slow, fast], [fast, slow]):
        (found,) = best(lines)
        assert (found["reef_us"], found["over_best"], found["strongest"]) == (9.0, 1.5, "compile")
        assert found["over_strongest"] == pytest.approx(12 / 9)
        (again,) = best([{"kind": "row", **found}, {**fast, "reef_us": 8.0, "compile_us": 13.0}])
        assert (again["reef_us"], again["strongest_us"]) == (8.0, 12.0)
    told = summary(best([slow, fast]))
    assert told["geometric_mean"]["mid"] == pytest.approx(12 / 9)
    assert told["geometric_mean_in_runs"]["mid"] == pytest.approx(1.5)


def test_a_row_is_faster_only_if_its_interval_says_so():
    told = summary(best(LINES))
    assert (told["rows_in_all"], told["compared"], told["faster_for_sure"]) == (4, 3, 1)
    assert told["not_faster"] == {"b": "compile", "c": "compile"}
    assert told["not_compared"] == {"d": "baselines ended"}
    mean = told["geometric_mean"]
    assert mean["mid"] == pytest.approx(1.005 ** (1 / 3))
    assert mean["high"] / mean["mid"] == pytest.approx(1 + 0.01 * sqrt(3) / 3, rel=1e-4)


def test_nothing_follows_from_nothing():
    assert summary([])["compared"] == 0 and "geometric_mean" not in summary([])


def test_all_rows_are_in_table_and_document_and_those_compared_in_the_plot(tmp_path: Path):
    conclude(LINES, ["d", "c"], "anchor", FigureRows(tmp_path, "anchor"), tmp_path)
    text = (tmp_path / "anchor.md").read_text()
    first, second, third, last = best(LINES)
    assert text == table([last, third, first, second]) and "2.000 (± 1.0 %)" in text and "baselines ended" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1
    drawn = ElementTree.parse(tmp_path / "anchor.svg").getroot()
    labels = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"a", "b", "c", "80 %"} <= labels and "d" not in labels
    assert '"rates"' in (tmp_path / "anchor.json").read_text()


def test_finished_files_and_lines_are_joined(tmp_path: Path):
    before = FigureRows(tmp_path, "anchor")
    before.conclude(machine="with a card")
    conclude(LINES, [], "anchor", before, tmp_path)
    later = tmp_path / "later.jsonl"
    later.write_text(json.dumps(row("b", 3.0, 0.1)) + "\n")
    joined = FigureRows(tmp_path / "all", "anchor")
    lines = [row for path in (tmp_path / "anchor.json", later) for row in lines_of(path, joined)]
    told = conclude(lines, [], "anchor", joined, tmp_path / "all")
    document = json.loads((tmp_path / "all" / "anchor.json").read_text())
    assert document["machine"] == "with a card" and told["rows_in_all"] == 4
    assert {each["row"]: each.get("over_best") for each in document["rows"]}["b"] == 3.0


def test_bars_are_as_long_as_their_ratios():
    bars = [RatioBar("fast", 2.0, 1.9, 2.1, "eager", None), RatioBar("slow", 1.0, 0.9, 1.1, "eager", None)]
    drawn = ElementTree.fromstring(draw("ratios", bars))
    wide = [float(element.attrib["width"]) for element in drawn.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert wide[0] == pytest.approx(2 * wide[1], abs=0.2)
