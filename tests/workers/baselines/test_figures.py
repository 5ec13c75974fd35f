"""Figures out of samples: medians, ratios inside rounds, intervals that cover."""

import random

import pytest

from workers.baselines.figures import are_tight, median_half_width, summarise
from workers.timing import FEWEST


def noisy(time_us: float, count: int, seed: int, deviation: float = 0.01) -> list[float]:
    generator = random.Random(seed)
    return [time_us * generator.lognormvariate(0, deviation) for _ in range(count)]


def test_a_ratio_is_taken_inside_rounds_so_that_drift_cancels():
    drift = [1 + 0.01 * step for step in range(40)]
    pacer = [20 * each for each in drift]
    baseline = summarise("M=1", {"pacer": pacer, "eager": [2 * each for each in pacer]}, {"liger": "absent"})
    figure = baseline.figures["eager"]
    assert figure.over_pacer == pytest.approx(2)
    assert figure.half_width == pytest.approx(0, abs=1e-9)
    assert figure.time_half_width > 0.05
    assert (baseline.pairs, baseline.skipped, set(baseline.figures)) == (40, {"liger": "absent"}, {"eager"})


def test_one_interrupted_sample_moves_nothing():
    pacer, eager = noisy(20, 40, 1), noisy(30, 40, 2)
    calm = summarise("M=1", {"pacer": pacer, "eager": eager}, {}).figures["eager"]
    upset = summarise("M=1", {"pacer": pacer, "eager": [900.0, *eager[1:]]}, {}).figures["eager"]
    assert upset.over_pacer == pytest.approx(calm.over_pacer, rel=2e-3)
    assert upset.time_us == pytest.approx(calm.time_us, rel=2e-3)


def test_intervals_cover_the_truth_as_often_as_they_say():
    ratios = medians = 0
    for trial in range(400):
        pacer = noisy(20, 40, 2 * trial)
        baseline = summarise("M=1", {"pacer": pacer, "eager": noisy(30, 40, 2 * trial + 1)}, {})
        figure = baseline.figures["eager"]
        ratios += abs(figure.over_pacer / 1.5 - 1) <= figure.half_width
        medians += abs(baseline.pacer_us / 20 - 1) <= baseline.pacer_half_width
    assert 0.92 <= ratios / 400 <= 0.98
    assert medians / 400 >= 0.92


def test_forty_pairs_at_a_deviation_of_one_per_cent_give_half_a_per_cent():
    figure = summarise("M=1", {"pacer": noisy(20, 40, 1), "eager": noisy(30, 40, 2)}, {}).figures["eager"]
    assert 0.002 < figure.half_width < 0.008


def test_ratios_are_tight_if_all_intervals_are():
    samples = {"pacer": noisy(20, 40, 1, 0.001), "eager": noisy(30, 40, 2, 0.001)}
    assert are_tight(samples, 0.005)
    assert not are_tight(samples, 0.0)
    assert not are_tight({**samples, "compile": noisy(25, 40, 3, 0.1)}, 0.005)


def test_too_few_rounds_have_no_interval():
    with pytest.raises(ValueError, match="too few"):
        summarise("M=1", {"pacer": [1.0] * (FEWEST - 1), "eager": [1.0] * (FEWEST - 1)}, {})


def test_the_interval_of_few_samples_is_their_range():
    assert median_half_width([9.0, 10.0, 11.0]) == pytest.approx(0.1)
