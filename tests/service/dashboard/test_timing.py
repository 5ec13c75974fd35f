import pytest

from service.dashboard.roofline import ShapeWork
from service.dashboard.timing import BaselineTimes, compare
from tests.service import records
from workers.protocol import ShapeResult


def test_a_measured_kernel_is_held_against_everybody() -> None:
    result = ShapeResult(
        shape="N=1024",
        pacer_us=12.0,
        baselines_us={"compile": 15.0, "eager": 20.0},
        mid_us=10.0,
        low_us=9.5,
        high_us=10.5,
        pairs=200,
    )
    report = records.report({}).model_copy(update={"shapes": (result,)})
    (times,) = compare(
        report,
        {"N=1024": ShapeWork(24_000_000)},
        [BaselineTimes("cell's holder", "incumbent", {"N=1024": 11.0})],
        "measured",
    )
    assert [bar.label for bar in times.bars] == [
        "this kernel",
        "cell's holder",
        "compile",
        "eager",
        "pacer",
        "memory floor",
    ]
    assert (times.bars[0].middle, times.bars[0].span, times.pairs) == (50.0, 5.0, 200)
    assert times.distance == pytest.approx(2.0) and times.limit.startswith("more than memory bandwidth")


def test_near_the_floor_memory_is_the_limit_and_without_one_nothing_is_said() -> None:
    near, unknown = compare(records.report({"a": 1.2, "b": 3.0}), {"a": ShapeWork(4_800_000)}, [], "predicted")
    assert near.limit == "memory bandwidth" and near.bars[0].value.startswith("\u2248")
    assert unknown.floors.floor_us is None and unknown.limit.startswith("neither")


def test_where_arithmetic_takes_longer_it_is_the_floor() -> None:
    (times,) = compare(records.report({"a": 150.0}), {"a": ShapeWork(4_800_000, matrix_flops=9.89e10)}, [], "predicted")
    assert [bar.label for bar in times.bars][-2:] == ["memory floor", "arithmetic floor"]
    assert times.floors.bound == "arithmetic" and times.distance == pytest.approx(1.5)
    assert times.limit == "arithmetic"
