"""The objective is the weighted geometric mean of baseline over candidate time, and needs every benchmark shape."""

import pytest

from service.promotion import benchmark_weights, first_benchmark, speedup, times_us
from tests.service import records
from workers.protocol import ShapeResult


def test_speedup_is_the_weighted_geometric_mean() -> None:
    gain = speedup(
        records.report({"N=1024": 5.0, "N=4096": 5.0}), {"N=1024": 10.0, "N=4096": 5.0}, {"N=1024": 1.0, "N=4096": 3.0}
    )
    assert gain is not None
    assert gain.mid == pytest.approx(2 ** (1 / 4))
    assert gain.low == gain.mid == gain.high


def test_bounds_of_the_speedup_come_from_the_opposite_bounds_of_the_time() -> None:
    shapes = (ShapeResult(shape="N=1024", mid_us=10.0, low_us=8.0, high_us=12.5),)
    gain = speedup(records.report({}, shapes=shapes), {"N=1024": 10.0}, {"N=1024": 2.0})
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((0.8, 1.0, 1.25))


@pytest.mark.parametrize("times", [{}, {"N=1024": 5.0}, {"N=1024": 5.0, "N=4096": 0.0}])
def test_a_benchmark_shape_without_a_time_gives_no_speedup(times: dict[str, float]) -> None:
    assert speedup(records.report(times), {"N=1024": 10.0, "N=4096": 10.0}, {"N=1024": 1.0, "N=4096": 1.0}) is None


def test_a_missing_baseline_gives_no_speedup() -> None:
    assert speedup(records.report({"N=1024": 5.0}), {}, {"N=1024": 1.0}) is None


def test_weights_are_those_of_the_benchmark_shapes() -> None:
    assert benchmark_weights(records.search()) == {"N=1024": 1.0, "N=4096": 3.0}
    assert first_benchmark(records.search()) == 1


def test_times_are_the_middle_times() -> None:
    assert times_us(records.report({"N=1024": 5.0})) == {"N=1024": 5.0}
