"""What launches are said to do where it was sampled, where it was not, and where it cannot be all."""

import pytest

from tests.gpu.contracts import operators
from tests.workers.baselines.catalogue import graph_of
from workers.devices.traffic import (
    ExecutedTraffic,
    TrafficFloor,
    extrapolated,
    floor_of,
    other_steps,
    predicted_us,
    raised,
    sampled,
)
from workers.interpreter import MeteredTraffic
from workers.predict import START_US, predict_us
from workers.protocol import Allocate, Buffer, Copy, Fill, LaunchReadings, Plan, Readings, Shape, View
from workers.targets import TARGETS

MATMUL = operators()["matmul"]
SHAPE = Shape(dims={"M": 64, "N": 32, "K": 128})
GRAPH = graph_of(MATMUL, SHAPE)
LARGE = graph_of(MATMUL, Shape(dims={"M": 640, "N": 320, "K": 1280}))
BYTES = 2 * (64 * 128 + 128 * 32 + 64 * 32)
FLOPS = 2 * 64 * 32 * 128


def view(buffer, rows=64, columns=32, dtype="bfloat16"):
    return View(buffer=buffer, shape=(rows, columns), strides=(columns, 1), dtype=dtype)


def plan(*steps, output=2):
    sizes = ((0, 64 * 128, 0), (1, 128 * 32, 1), (2, 64 * 32, None), (3, 64 * 64, None))
    buffers = tuple(Buffer(id=number, bytes=2 * size, input=given) for number, size, given in sizes)
    allocated = tuple(Allocate(buffer=number) for number in (2, 3))
    return Plan(shape=SHAPE, buffers=buffers, steps=(*allocated, *steps), outputs=(view(output),))


def readings(*units, warps=(4, 12)):
    launches = tuple(
        LaunchReadings(programs=8, num_warps=each, tensor_core=unit) for each, unit in zip(warps, units, strict=False)
    )
    return Readings(
        launches=len(units), programs=8, programs_per_sm=1.0, num_warps=4, bytes_required=BYTES, by_launch=launches
    )


def metered(moved=0, dots=0, floats=0):
    return MeteredTraffic(moved_bytes=moved, dot_operations=dots, float_operations=floats)


def of(read, name):
    return [launch.operations.get(name, 0) for launch in read.by_launch]


def test_a_floor_is_what_is_read_and_written_and_multiplied():
    floor = floor_of(MATMUL, GRAPH, plan())
    assert (floor.moved_bytes, floor.launched_bytes, floor.flops) == (BYTES, BYTES, FLOPS)
    h200 = TARGETS["sm_90"]
    assert floor.time_us(h200) == pytest.approx(max(BYTES / 4.8e6, FLOPS / 989e6))
    assert floor_of(MATMUL, GRAPH, plan(output=0)).moved_bytes == BYTES - 2 * 64 * 32, "it is there already"


def test_fills_and_copies_move_bytes_that_launches_need_not():
    steps = (Fill(target=view(3, 16, 16, "float32"), value=0), Copy(source=view(3), target=view(2)))
    assert other_steps(plan(*steps)) == [1024, 2 * 4096]
    floor = floor_of(MATMUL, GRAPH, plan(*steps))
    assert (floor.moved_bytes, floor.launched_bytes) == (BYTES, BYTES - 9216)


def test_samples_are_taken_launch_by_launch():
    found = sampled(readings("mma", "none"), [metered(5, 7), metered(6, 0, 8)])
    assert [launch.bytes_moved for launch in found.by_launch] == [5, 6]
    assert (found.bytes_moved, of(found, "matrix"), of(found, "float")) == (11, [7, 0], [0, 8])


@pytest.mark.parametrize(
    ("units", "added"),
    [
        (("none", "wgmma"), [0, FLOPS - 20]),
        (("wgmma", "mma"), [0, FLOPS - 20]),
        (("mma", "mma"), [(FLOPS - 20) // 4, (FLOPS - 20) * 3 // 4]),
        (("none", "none"), [(FLOPS - 220) // 4, (FLOPS - 220) * 3 // 4]),
    ],
)
def test_what_is_missing_is_added_where_it_takes_longest(units, added):
    floor = floor_of(MATMUL, GRAPH, plan())
    read = sampled(readings(*units), [metered(BYTES - 400, 10, 50), metered(0, 10, 50)])
    found = raised(read, floor)
    assert of(found, "matrix") == [10 + each for each in added]
    assert [launch.bytes_moved for launch in found.by_launch] == [BYTES - 300, 300]
    assert found.bytes_moved == BYTES


def test_what_is_enough_stays_as_it_is():
    floor = floor_of(MATMUL, GRAPH, plan())
    read = sampled(readings("wgmma"), [metered(2 * BYTES, FLOPS)])
    assert raised(read, floor) == read
    by_elements = sampled(readings("none"), [metered(2 * BYTES, 0, FLOPS // 2)])
    assert of(raised(by_elements, floor), "matrix") == [0]
    empty = Readings(launches=0, programs=0, programs_per_sm=0.0, num_warps=0)
    assert raised(empty, floor).bytes_moved == BYTES


def test_what_was_executed_grows_as_the_reference_does():
    executed = ExecutedTraffic(metered(3 * BYTES, 2 * FLOPS, 100), BYTES, GRAPH)
    found = extrapolated(readings("none", "mma"), executed, LARGE)
    assert found.bytes_moved == 3 * BYTES * 1000, "tiles are loaded again for every other tile"
    assert (of(found, "matrix"), of(found, "float")) == ([0, 2 * FLOPS * 1000], [25 * 1000, 75 * 1000])
    without = extrapolated(readings("none", "none"), ExecutedTraffic(metered(BYTES, 0, 100), BYTES, GRAPH), LARGE)
    assert sum(of(without, "matrix")) == LARGE.matrix_flops, "never none"


def test_without_products_bytes_decide():
    softmax = operators()["softmax"]
    small, large = (graph_of(softmax, Shape(dims={"M": rows, "N": 64})) for rows in (4, 40))
    read = readings("none").model_copy(update={"bytes_required": 10 * BYTES})
    found = extrapolated(read, ExecutedTraffic(metered(BYTES, 0, 8), BYTES, small), large)
    assert (found.bytes_moved, of(found, "matrix"), of(found, "float")) == (10 * BYTES, [0], [80])


def test_no_time_is_below_the_floor():
    card, size = TARGETS["sm_120"], 64 << 20
    read = sampled(readings("none", "none", warps=(1, 100_000)), [metered(), metered(size)])
    read = read.model_copy(update={"bytes_required": size})
    by_itself = predict_us(read, card)
    assert predicted_us(read, plan(), TrafficFloor(0, 0, 0.0), card) == by_itself
    found = predicted_us(read, plan(), TrafficFloor(size, size, 0.0), card)
    assert found == pytest.approx(size / 1.79e6)
    assert found > by_itself, "what the first launch does not read is taken for cached in the second"
    copy = Copy(source=view(3), target=view(2))
    assert predicted_us(read, plan(copy), TrafficFloor(0, 0, 0.0), card) == pytest.approx(by_itself + START_US, abs=0.1)
