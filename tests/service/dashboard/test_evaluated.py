import pytest

from service.dashboard.candidate import load_candidate
from service.dashboard.evaluated import BaselineTimes, compare, load_results
from service.evaluation.floors import ShapeWork
from service.evaluation.reports import reports_on
from tests.service import records
from tests.service.dashboard.conftest import Filled, Service
from tests.workers.sheets import H100
from workers.protocol import Device, ShapeResult

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_device_of_the_search_has_its_say(service: Service, filled: Filled) -> None:
    store = service.coordinator.store
    reports = await reports_on(store, filled.best)
    here, elsewhere = await load_results(store, filled.search, reports, None)
    assert (here.device, here.provenance, here.relative_to) == (records.DEVICE, "predicted", "seed kernel")
    assert here.report is not None and here.report.job == reports[-1].job
    assert here.cell is None and here.holder is None, "without a bundle nobody knows where it lies"
    assert elsewhere.report is None and elsewhere.times == () and elsewhere.speedup is None


async def test_times_are_held_against_the_seeds(service: Service, filled: Filled) -> None:
    store = service.coordinator.store
    judged = (await load_candidate(store, filled.best, None, None)).judged[0]
    assert judged.holder is not None and judged.holder.candidate == filled.best
    assert judged.times[0].floors.memory_us is not None and judged.times[0].floors.arithmetic_us is None
    assert judged.roofline is None, "how much arithmetic the reference takes is not known"


async def test_a_measured_kernel_is_held_against_everybody() -> None:
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


async def test_near_the_floor_memory_is_the_limit_and_without_one_nothing_is_said() -> None:
    near, unknown = compare(records.report({"a": 1.2, "b": 3.0}), {"a": ShapeWork(4_800_000)}, [], "predicted")
    assert near.limit == "memory bandwidth" and near.bars[0].value.startswith("\u2248")
    assert unknown.floors.floor_us is None and unknown.limit.startswith("the required bytes")


async def test_where_arithmetic_takes_longer_it_is_the_floor() -> None:
    (times,) = compare(records.report({"a": 150.0}), {"a": ShapeWork(4_800_000, matrix_flops=9.89e10)}, [], "predicted")
    assert [bar.label for bar in times.bars][-2:] == ["memory floor", "arithmetic floor"]
    assert times.floors.bound == "arithmetic" and times.distance == pytest.approx(1.5)
    assert times.limit == "arithmetic"


async def test_floors_are_those_of_the_card_that_measured() -> None:
    result = ShapeResult(shape="N=1024", mid_us=10.0, low_us=9.5, high_us=10.5)
    report = records.report({}, device=Device.parse("h100"), shapes=(result,), card=H100)
    (times,) = compare(report, {"N=1024": ShapeWork(24_000_000)}, [], "measured")
    assert times.floors.memory_us == pytest.approx(24e6 / 3.352e12 * 1e6, rel=1e-3)
    assert times.over_copy is None


async def test_a_copy_of_the_bytes_stands_beside_the_floors() -> None:
    result = ShapeResult(shape="N=1024", mid_us=10.0, low_us=9.5, high_us=10.5, copy_us=8.0)
    report = records.report({}, device=Device.parse("h100"), shapes=(result,), card=H100)
    (times,) = compare(report, {"N=1024": ShapeWork(24_000_000, matrix_flops=1e9)}, [], "measured")
    assert [bar.label for bar in times.bars][1:] == ["memory floor", "plain copy", "arithmetic floor"]
    assert times.over_copy == pytest.approx(1.25)
