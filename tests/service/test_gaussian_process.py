"""A Gaussian process goes through what is known, and is unsure away from it."""

import numpy as np
import pytest

from service.gaussian_process import GaussianProcess, squared_distances


def line(*places: float) -> np.ndarray:
    return np.array([[place] for place in places])


def test_it_interpolates_and_is_sure_only_near_what_it_knows() -> None:
    values = np.array([-1.2, -0.3, 0.0, 1.5])
    process = GaussianProcess(line(0, 1, 2, 3), values, (0.5, 1.0), (1e-4,))
    mean, deviation = process.predict(line(0, 1, 2, 3, 50))
    assert mean[:4] == pytest.approx(values, abs=0.01) and mean[4] == pytest.approx(0, abs=1e-6)
    assert max(deviation[:4]) < 0.02 and deviation[4] == pytest.approx(1.0)
    assert process.length in (0.5, 1.0)


def test_a_trend_is_continued_where_it_is_asked_for() -> None:
    places = line(*np.linspace(0, 1, 12))
    values = (places[:, 0] - 0.5) / places[:, 0].std()
    mean, deviation = GaussianProcess(places, values, (1.0,), (1e-3,), slope=10.0).predict(line(3.0))
    assert mean[0] == pytest.approx((3.0 - 0.5) / places[:, 0].std(), rel=0.1) and deviation[0] > 0.1
    assert abs(GaussianProcess(places, values, (0.1,), (1e-3,)).predict(line(3.0))[0][0]) < 1e-6


def test_distances_are_never_negative() -> None:
    far = line(1e8, 1e8 + 1)
    assert squared_distances(line(0, 3), line(4)).tolist() == [[16.0], [1.0]]
    assert squared_distances(far, far).min() >= 0
