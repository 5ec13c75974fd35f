"""Efforts are told for what the basis found, and by how much, not only whether, they are less."""

import pytest

from benchmarks.efforts import NEVER, efforts


def run(contender: str, seed: int, *curve: float, operator: str = "softmax") -> dict[str, object]:
    return {"operator": operator, "contender": contender, "seed": seed, "curve": list(curve), "best_known": 2.0}


ROWS = [
    *(run("drawing", seed, 1.0, 1.0, 1.0, 1.5) for seed in range(3)),
    *(run("searching", seed, 1.0, 1.5, 1.5, 2.0) for seed in range(2)),
    run("searching", 2, 1.0, 1.0, 1.0, 1.2),
]


def by_name(budget: int) -> dict[str, dict[str, object]]:
    return {row["contender"]: row for row in efforts(ROWS, "drawing", budget)}


def test_evaluations_to_the_goal_are_counted_and_runs_that_never_got_there_weigh_twice():
    found = by_name(4)
    assert found["drawing"]["mean_evaluations"] == 4 and found["drawing"]["never"] == 0
    assert found["searching"]["mean_evaluations"] == pytest.approx((2 + 2 + 4 * NEVER) / 3)
    assert found["searching"]["never"] == 1
    assert found["searching"]["final_best"] == pytest.approx((1.0 + 1.0 + 0.6) / 3)


def test_a_ratio_has_an_interval_around_it():
    found = by_name(4)
    assert found["drawing"]["of_basis"] == {"low": 1.0, "mid": 1.0, "high": 1.0}
    ratio = found["searching"]["of_basis"]
    assert ratio["low"] == pytest.approx(0.5) and ratio["high"] == pytest.approx(2.0)
    assert ratio["mid"] == pytest.approx((0.5 * 0.5 * 2) ** (1 / 3))


def test_a_smaller_budget_has_a_goal_of_its_own():
    assert by_name(2)["searching"]["mean_evaluations"] == 1
