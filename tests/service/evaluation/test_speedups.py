"""Speedups are weighted geometric means over all benchmark shapes; measured ones get their baselines later."""

import pytest

from archive.records import MeasuredBaselines
from service.evaluation.speedups import (
    baselines_of,
    benchmark_weights,
    completed,
    gain,
    over_pacer,
    scaled,
    speedup,
    times_us,
    weights_of,
)
from tests.service import records
from workers.protocol import Device, Outcome, Ratio, ShapeResult

H200 = Device.parse("h200")
BASELINE_US = {"N=1024": 10.0, "N=4096": 10.0}
WEIGHTS = {"N=1024": 1.0, "N=4096": 3.0}
SPEEDUP = Ratio(low=1.2, mid=1.25, high=1.3)
TWICE = Ratio(low=1.9, mid=2.0, high=2.1)
BASELINES = MeasuredBaselines(
    low=0.45,
    mid=0.5,
    high=0.55,
    pacer_us={"N=1024": 22.0, "N=4096": 44.0},
    times_us={"N=1024": {"eager": 11.0}, "N=4096": {"eager": 22.0, "compile": 23.0}},
    copy_us={"N=1024": 9.0},
)


def timed(**changes: object):
    """A measured report without baselines: twice as fast as the pacer."""
    shapes = tuple(
        ShapeResult(shape=shape, pacer_us=us, low_us=us / 2, mid_us=us / 2, high_us=us / 2)
        for shape, us in (("N=1024", 20.0), ("N=4096", 40.0))
    )
    return records.report({}, **{"device": H200, "shapes": shapes, "over_pacer": TWICE, **changes})


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


def test_times_are_the_middle_times() -> None:
    assert times_us(records.report({"N=1024": 5.0})) == {"N=1024": 5.0}


def test_devices_that_measure_give_the_speedup_themselves() -> None:
    times = {"N=1024": 5.0, "N=4096": 5.0}
    measured = records.report(times, device=H200, speedup=SPEEDUP)
    assert gain(measured, BASELINE_US, WEIGHTS) == SPEEDUP
    assert gain(measured.model_copy(update={"speedup": None}), BASELINE_US, WEIGHTS) is None
    predicted = gain(records.report(times), BASELINE_US, WEIGHTS)
    assert predicted is not None and predicted.mid == pytest.approx(2.0)


@pytest.mark.parametrize("device", [records.DEVICE, "h200"])
def test_what_is_not_correct_has_no_speedup(device: str) -> None:
    report = records.report(BASELINE_US, device=Device.parse(device), speedup=SPEEDUP, outcome=Outcome.WRONG_RESULT)
    assert gain(report, BASELINE_US, WEIGHTS) is None


def test_a_measured_report_is_over_the_pacer() -> None:
    assert over_pacer(timed(), WEIGHTS) == TWICE
    assert over_pacer(timed(outcome=Outcome.HANG), WEIGHTS) is None
    assert over_pacer(timed(over_pacer=None), WEIGHTS) is None


def test_a_report_of_an_older_release_has_its_speedup_over_the_pacer_computed() -> None:
    shapes = (
        ShapeResult(shape="N=1024", pacer_us=20.0, baselines_us={"eager": 10.0, "compile": 40.0}),
        ShapeResult(shape="N=4096", pacer_us=40.0, baselines_us={"eager": 20.0}),
    )
    found = over_pacer(timed(over_pacer=None, speedup=SPEEDUP, shapes=shapes), WEIGHTS)
    assert found is not None and (found.low, found.mid, found.high) == pytest.approx((2.4, 2.5, 2.6))


def test_baselines_of_a_report_are_the_pacers_worth_and_all_times() -> None:
    assert baselines_of(timed()) is None
    told = completed(timed(), records.search(baselines={"h200": BASELINES}))
    assert baselines_of(told) == BASELINES


def test_a_report_that_came_before_the_baselines_is_completed() -> None:
    told = completed(timed(), records.search(baselines={"h200": BASELINES}))
    assert told.speedup == scaled(TWICE, BASELINES) == Ratio(low=1.9 * 0.45, mid=1.0, high=2.1 * 0.55)
    assert [shape.baselines_us for shape in told.shapes] == [{"eager": 11.0}, {"eager": 22.0, "compile": 23.0}]
    assert [(shape.pacer_us, shape.mid_us) for shape in told.shapes] == [(22.0, pytest.approx(11.0)), (44.0, 22.0)]
    assert [shape.copy_us for shape in told.shapes] == [9.0, None]
    assert weights_of(records.SHAPES) == WEIGHTS


@pytest.mark.parametrize("baselines", [{}, {"h200": MeasuredBaselines(reason="no GPU memory")}, {"h100": BASELINES}])
def test_without_baselines_a_report_stays_as_it_is(baselines: dict[str, MeasuredBaselines]) -> None:
    assert completed(timed(), records.search(baselines=baselines)) == timed()


def test_a_report_with_baselines_of_its_own_keeps_them() -> None:
    own = timed(speedup=SPEEDUP)
    assert completed(own, records.search(baselines={"h200": BASELINES})) == own
