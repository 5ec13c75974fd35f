"""Who serves which shape: the best elite, and another one only where it is faster beyond doubt."""

import math

import pytest

from service.export.selection import ExportCandidate, additions, choose, mean_time, unlike
from tests.service import records
from workers.protocol import ShapeResult


def contender(name: str, objective: float, *times: tuple[str, float, float, float, float | None]) -> ExportCandidate:
    shapes = tuple(
        ShapeResult(shape=shape, low_us=low, mid_us=mid, high_us=high, pacer_us=pacer)
        for shape, low, mid, high, pacer in times
    )
    return ExportCandidate(name, 0, objective, records.report({}, shapes=shapes))


def names(*contenders: ExportCandidate) -> dict[str, str]:
    return {shape: who.candidate for shape, who in choose(contenders, ["A", "B", "small"]).items()}


def test_the_best_serves_what_nobody_serves_faster() -> None:
    best = contender("best", 2.0, ("A", 9.9, 10.0, 10.1, None), ("B", 9.9, 10.0, 10.1, None))
    other = contender("other", 1.5, ("A", 4.9, 5.0, 5.1, None), ("B", 20.0, 20.0, 20.0, None))
    third = contender("third", 1.2, ("A", 5.9, 6.0, 6.1, None))
    assert names(other, best, third) == {"A": "other", "B": "best", "small": "best"}


def test_a_difference_that_may_be_noise_is_none() -> None:
    best = contender("best", 2.0, ("A", 9.5, 10.0, 10.5, None))
    near = contender("near", 1.9, ("A", 9.0, 9.4, 9.6, None))
    assert names(best, near)["A"] == "best"


def test_measured_times_are_compared_by_what_ran_beside_them() -> None:
    best = contender("best", 2.0, ("A", 10.0, 10.0, 10.0, 20.0))
    cooler = contender("cooler", 1.9, ("A", 9.0, 9.0, 9.0, 15.0))
    assert names(best, cooler)["A"] == "best", "0.5 of the pacer's time is less than 0.6 of it"


def test_without_times_there_is_only_the_best() -> None:
    assert names(contender("best", 2.0), contender("other", 1.0, ("A", 1.0, 1.0, 1.0, None)))["A"] == "best"


def elite(name: str, objective: float, source: str) -> ExportCandidate:
    return ExportCandidate(name, 0, objective, records.report({}), source)


ROW = "def f(x):\n    y = load(x)\n    return y / sum(y)\n"
LOOP = "def f(x):\n    total = 0\n    for part in range(0, n, 64):\n        total += load(x + part)\n    return total\n"
ONCE_MORE = ROW.replace("sum(y)", "total(y)")


def test_the_mean_time_of_a_report_is_relative_to_the_pacer() -> None:
    known = contender("known", 1.0, ("A", 9.0, 8.0, 9.0, 4.0), ("B", 9.0, 9.0, 9.0, 2.0))
    assert mean_time(known.report) == pytest.approx(3.0)
    assert mean_time(contender("unknown", 1.0).report) == math.inf


def test_programs_that_are_unlike_the_chosen_ones_are_tried_first() -> None:
    best, other, near, same = (
        elite("best", 2.0, ROW),
        elite("other", 1.0, LOOP),
        elite("near", 1.9, ONCE_MORE),
        elite("same", 1.8, ROW),
    )
    assert [each.candidate for each in unlike([best, near, same, other], [best], 3)] == ["other", "near"]
    assert [each.candidate for each in unlike([best, near, same, other], [best], 1)] == ["other"]
    slow = elite("slow", 0.01, LOOP)
    assert [each.candidate for each in unlike([best, near, slow], [best], 2)] == ["near", "slow"], (
        "too slow to be first"
    )


def test_those_that_save_time_beyond_doubt_are_added_the_most_useful_first() -> None:
    known = {"short": 10.0, "long": 300.0, "wide": 50.0}
    offered = {
        "looped": {"short": 20.0, "long": 60.0, "wide": 49.0},
        "alike": {"short": 9.8, "long": 298.0, "wide": 49.0},
        "narrow": {"short": 5.0},
        "both": {"short": 6.0, "long": 70.0},
    }
    assert additions(known, offered, 4) == ["both", "narrow", "looped"]
    assert additions(known, offered, 1) == ["both"]
    assert additions(known, {"alike": offered["alike"]}, 4) == [], "a difference that may be noise is none"
    assert additions({}, offered, 4) == []
