"""Intervals cover what they say, and joint ones cover the mean over shapes."""

from math import exp
from random import Random

import pytest

from workers.timing import FEWEST, Estimate, estimate, student_quantile, weighted


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [(0.975, 3, 3.1824), (0.975, 9, 2.2622), (0.975, 39, 2.0227), (0.9995, 9, 4.7809), (0.5, 5, 0.0)],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, expected: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(expected, rel=0.01, abs=1e-9)


def test_an_outlier_does_not_move_the_estimate() -> None:
    calm = [0.001 * (index % 5 - 2) for index in range(20)]
    shaken = [*calm[:-1], 3.0]
    assert abs(estimate(shaken).mean - estimate(calm).mean) < 0.001


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    random = Random(7)
    hits = 0
    for _ in range(2000):
        low, _, high = estimate([random.gauss(0.02, 0.01) for _ in range(16)]).bounds()
        hits += low <= exp(0.02) <= high
    assert 0.93 < hits / 2000 < 0.98


def test_a_joint_interval_covers_the_weighted_mean() -> None:
    random = Random(8)
    hits = 0
    for _ in range(1000):
        parts = [estimate([random.gauss(mean, 0.01) for _ in range(16)]) for mean in (0.1, 0.0, -0.1)]
        low, _, high = weighted(parts, (2.0, 1.0, 1.0)).bounds()
        hits += low <= exp(0.025) <= high
    assert 0.93 < hits / 1000 < 0.99


def test_weights_decide() -> None:
    fast, slow = Estimate(1.0, 0.1, 9), Estimate(0.0, 0.1, 5)
    joint = weighted((fast, slow), (3.0, 1.0))
    assert joint.mean == pytest.approx(0.75) and joint.freedom == 5


def test_too_few_samples_have_no_interval() -> None:
    with pytest.raises(ValueError, match="too few"):
        estimate([0.0] * (FEWEST - 1))
