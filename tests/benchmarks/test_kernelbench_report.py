"""Rows, shares and the page that follow from the lines of a campaign, and modules `ModelNew` that others can run."""

import json
import lzma
from math import exp, log
from pathlib import Path

import pytest

from benchmarks.kernelbench_report import (
    BEGIN,
    EMPTY,
    END,
    answer_counts,
    cheats_table,
    filled,
    geometric_mean,
    merged,
    page,
    parts_of_page,
    rows_of,
    shares,
    sol_share,
    write_solutions,
)
from benchmarks.record import RESULTS
from service.operators.kernelbench import files_of_operator, operator_of_problem
from tests.workers.kernelbench.problems import forward
from workers.kernelbench import inspect
from workers.protocol.kernelbench import ProblemQuestion

PROBLEM = forward("return x * 2")
PAGE = Path(__file__).parents[2] / "docs" / "results" / "kernelbench.md"
WANTED = [(f"level1/{name}.py", "rules") for name in "abcd"]


def ratio(mid: float) -> dict[str, float]:
    return {"low": mid * 0.99, "mid": mid, "high": mid * 1.01}


def searched(name: str, mid: float | None, **told: object) -> dict[str, object]:
    found = {"source": "x", "emitter": "tune", "reef_us": 10.0, "floor_us": 5.0, "objective": 1.0, "over_best": mid}
    times = {"ratios": {"compile": ratio(mid)}, "compile_us": 10 * mid, "over_best_half_width": 0.01} if mid else {}
    row = {"kind": "row", "row": f"level1/{name}.py default rules", "problem": f"level1/{name}.py", "session": 1.0}
    base = {
        "operator": f"level1_{name}",
        "contract": "default",
        "how": "rules",
        "state": "stopped",
        "seeds": ["correct"],
    }
    return {**row, **base, **(found if mid else {}), **times, "device": "h100", **told}


def prepared(name: str, reason: str = "") -> dict[str, object]:
    return {"problem": f"level1/{name}.py", "contract": "default", "seeds": 1, "reason": reason, "allow_tf32": False}


LINES = [
    {"kind": "sitting", "session": 1.0, "device": "h100", "versions": {"torch": "2.11.0"}},
    searched("a", 2.0),
    searched("b", 0.5),
    searched("c", None, seeds=["wrong_result"], reason="the seed is wrong"),
]
PREPARED = [prepared("a"), prepared("b"), prepared("c"), prepared("d", "no kernel to start from: it sorts")]


def test_every_listed_problem_has_a_row_that_says_what_came_of_it() -> None:
    rows = rows_of(LINES, PREPARED, {"level1/b.py": "zeros"}, [*WANTED, ("level1/e.py", "rules")])
    outcomes = {row["problem"]: row["outcome"] for row in rows}
    assert list(outcomes.values()) == ["correct", "correct", "wrong_result", "no_seed", "not_reached"]
    assert rows[0]["device"] == "h100" and rows[0]["versions"] == {"torch": "2.11.0"} and rows[1]["defect"] == "zeros"
    assert rows[0]["emitter"] == "tune" and rows[0]["sol"] == pytest.approx(10 / 15)


def test_shares_count_failures_and_come_with_both_denominators() -> None:
    found = shares(rows_of(LINES, PREPARED, {"level1/b.py": "zeros"}, [*WANTED, ("level1/e.py", "rules")]))
    told = {(row["of"], row["baseline"]): row for row in found}
    assert told["all", "compile"]["problems"] == 4 and told["sound", "compile"]["problems"] == 3
    assert told["all", "compile"]["fast_1"]["count"] == 1 and told["all", "compile"]["fast_2"]["count"] == 0
    assert told["all", "compile"]["geometric_mean"]["mid"] == pytest.approx(1.0)
    assert told["all", "max_autotune"]["timed"] == 0 and told["all", "max_autotune"]["geometric_mean"] is None


def test_a_row_counts_for_the_baselines_that_it_was_compared_with() -> None:
    told = [searched("a", 2.0), searched("b", 3.0, asked=["compile"]), searched("c", None)]
    rows = rows_of([*LINES[:1], *told], [], {}, WANTED)
    counted = {share["baseline"]: share["problems"] for share in shares(rows) if share["of"] == "all"}
    assert counted == {"eager": 3, "compile": 3, "max_autotune": 2}


def test_a_model_s_kernels_are_counted_by_verdict_and_written_beside_the_best_one(tmp_path: Path) -> None:
    """The best kernel is written once, though a model wrote it too."""
    verdicts = ("correct", "wrong_result", None, "worker_lost")
    answered = [{"number": number, "outcome": each} for number, each in enumerate(verdicts, 1)]
    line = searched("a", 2.0, how="model", row="level1/a.py default model", answered=answered)
    (row,) = rows_of([LINES[0], line], [prepared("a")], {}, [("level1/a.py", "model")])
    counts = {"correct": 1, "not_judged": 1, "worker_lost": 1, "wrong_result": 1}
    assert answer_counts([row]) == {"default level1": counts}
    assert "A model's kernels, default level1: 1 correct, 1 not_judged, 1 worker_lost, 1 wrong" in page([row], [])
    recording, home = tmp_path / "answers.jsonl.xz", tmp_path / "default" / "level1_a"
    with lzma.open(recording, "wt") as file:
        for source in ("x", *(f"class ModelNew: {each}" for each in range(2, 5))):
            file.write(json.dumps({"contract": "default", "operator": "level1_a", "source": source}) + "\n")
    home.mkdir(parents=True)
    imported = operator_of_problem("level1_a", PROBLEM, inspect(ProblemQuestion(source=PROBLEM)))
    for name, text in files_of_operator(imported, ()).items():
        (home / name).write_text(text)
    assert write_solutions([line], [], tmp_path / "solutions", tmp_path, recording) == []
    written = sorted(str(path.relative_to(tmp_path / "solutions")) for path in tmp_path.glob("solutions/*/*/*.py"))
    assert written == ["default/answer-2/level1_a.py", "default/model/level1_a.py"]
    former = {name: line[name] for name in ("problem", "contract", "how", "answered", "device")}
    assert write_solutions([], [former], tmp_path / "former", tmp_path, recording) == []
    written = sorted(str(path.relative_to(tmp_path / "former")) for path in tmp_path.glob("former/*/*/*.py"))
    assert written == ["default/answer-1/level1_a.py", "default/answer-2/level1_a.py"], "the best kernel is not known"


def test_a_mean_has_an_interval_over_problems() -> None:
    mean = geometric_mean([ratio(1.0), ratio(2.0), ratio(4.0)])
    assert mean is not None and mean["mid"] == pytest.approx(exp(log(8) / 3))
    assert 1.0 <= mean["low"] < mean["mid"] < mean["high"] <= 4.0


def test_the_closed_share_is_of_the_gap_between_the_fastest_baseline_and_the_floor() -> None:
    times = {"eager_us": 30.0, "compile_us": 20.0, "reef_us": 15.0, "floor_us": 10.0}
    assert sol_share(times) == 0.5 and sol_share(times | {"reef_us": 25.0}) == -0.5
    assert sol_share(times | {"floor_us": None}) is None and sol_share(times | {"floor_us": 20.0}) is None


def test_the_page_shows_what_the_results_say() -> None:
    rows = rows_of(LINES, PREPARED, {}, WANTED)
    text = page(rows, shares(rows))
    assert "| level1/a | default, rules | 10.0 |" in text and "2.000 (1.980 to 2.020)" in text
    assert "wrong_result: the seed is wrong" in text and "no_seed: no kernel to start from" in text
    assert page([], []) == EMPTY and "not been reached" not in text
    more = rows_of(LINES, PREPARED, {}, [*WANTED, ("level1/e.py", "rules")])
    assert page(more, shares(more)).endswith("\n1 of 5 rows have not been reached by any sitting yet.\n")
    marks = BEGIN.format("x"), END.format("x")
    assert filled("old\n".join(marks), {"x": "new\n"}) == "new\n".join(marks)
    with pytest.raises(ValueError, match="no marks"):
        filled("a page", {"x": "new"})


def test_rows_of_earlier_sittings_stay_until_figures_replace_them() -> None:
    former = rows_of(LINES, PREPARED, {}, [*WANTED, ("level1/e.py", "rules")])
    later = [
        searched("a", None, seeds=["race"]),
        searched("b", 3.0),
        searched("e", 4.0, how="model", row="level1/e.py default model"),
    ]
    found = merged(former, rows_of([*later, LINES[0]], PREPARED, {}, [*WANTED, ("level1/e.py", "model")]))
    mids = {(row["problem"], row["how"]): (row.get("speedup") or {}).get("compile", {}).get("mid") for row in found}
    assert mids["level1/a.py", "rules"] == 2.0 and mids["level1/b.py", "rules"] == 3.0
    assert mids["level1/e.py", "rules"] is None and mids["level1/e.py", "model"] == 4.0 and len(found) == 6


def test_of_two_rows_with_figures_the_faster_kernel_counts_if_it_was_compared() -> None:
    def row(reef_us: float, compile_us: float | None = 20.0) -> dict[str, object]:
        return searched("a", None, outcome="correct", reef_us=reef_us, compile_us=compile_us)

    for one, other, counts in ((10.0, 9.0, 9.0), (9.0, 10.0, 9.0)):
        assert [each["reef_us"] for each in merged([row(one)], [row(other)])] == [counts]
    assert [each["reef_us"] for each in merged([row(9.0, None)], [row(10.0)])] == [10.0]
    assert [each["reef_us"] for each in merged([row(10.0)], [row(9.0, None)])] == [10.0]


def test_cheats_have_the_verdict_of_kernelbench_s_evaluator_where_it_was_run() -> None:
    rows = [{"cheat": name, "published": "p", "kernelbench_by_source": "accepted", "outcome": "race"} for name in "ab"]
    assert "run" not in cheats_table(rows, []).splitlines()[0]
    theirs = [{"cheat": "a", "correct": True, "their_speedup": 12.0, "excessive_speedup": True}]
    text = cheats_table(rows, theirs)
    assert "| a | p | accepted | accepted, 12 times eager, flagged as excessive | race |" in text
    assert "| b | p | accepted | not run | race |" in text


def test_the_committed_page_is_what_the_committed_results_say() -> None:
    document = PAGE.read_text()
    assert filled(document, parts_of_page(RESULTS)) == document
