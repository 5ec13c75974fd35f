"""The objective is the weighted geometric mean of baseline over candidate time, and needs every benchmark shape."""

import pytest

from archive.records import EMPTY_CELL
from service.evaluation.jobs import confirm_id
from service.evaluation.promotion import first_benchmark, outdoes
from service.evaluation.speedups import benchmark_weights, gain, speedup, times_us
from tests.service import records
from workers.protocol import PRACTICAL_MARGIN, Device, Outcome, Ratio, Report, ShapeResult, Trust

H200 = Device.parse("h200")
BASELINE_US = {"N=1024": 10.0, "N=4096": 10.0}
WEIGHTS = {"N=1024": 1.0, "N=4096": 3.0}
SPEEDUP = Ratio(low=1.2, mid=1.25, high=1.3)


def confirm(incumbent: str, low: float | None = None, **changes: object) -> Report:
    rival = None if low is None else Ratio(low=low, mid=low + 0.01, high=low + 0.02)
    fields = {"kind": "confirm", "job": confirm_id("c", 0, "h200", incumbent), "device": H200, "speedup": SPEEDUP}
    return records.report({}, **{**fields, "rival": rival, **changes})


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


def test_an_empty_cell_takes_whoever_is_still_correct() -> None:
    assert outdoes(confirm(EMPTY_CELL))
    assert not outdoes(confirm(EMPTY_CELL, outcome=Outcome.NONDETERMINISTIC))
    assert not outdoes(confirm(EMPTY_CELL, speedup=None))
    assert [outdoes(confirm(EMPTY_CELL, trust=trust)) for trust in (Trust.B, Trust.D)] == [True, False]


@pytest.mark.parametrize(
    ("low", "outdone"),
    [(None, False), (0.99, False), (1.0, False), (1 + PRACTICAL_MARGIN, False), (1.0051, True), (2.0, True)],
)
def test_an_incumbent_is_beaten_by_more_than_the_margin_or_not_at_all(low: float | None, outdone: bool) -> None:
    assert outdoes(confirm("b" * 64, low)) is outdone
    assert not outdoes(confirm("b" * 64, low, outcome=Outcome.WORKER_LOST))
