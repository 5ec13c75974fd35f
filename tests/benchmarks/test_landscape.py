"""The script that records landscapes, tried out on the `model` device."""

from itertools import islice

import pytest

from benchmarks.figures import TimeAllowance
from benchmarks.landscape import LandscapeRecording, OperatorRecording, TracerPool, shapes_for
from benchmarks.measurer import Measurer, MeasurerSlot
from benchmarks.space import ladder, points, templates, written
from service.emitters.tune import read as parameters_of
from tests.gpu.contracts import operators
from workers.errors import WorkerError
from workers.landscape import pack, read
from workers.protocol import CardShare, Device, Outcome, ShapeRole

MODEL = Device.parse("model:sm_90")


@pytest.fixture(scope="module")
def space():
    return list(points(operators()["softmax"], "sm_90"))


def test_the_space_is_the_same_every_time(space):
    assert list(islice(points(operators()["softmax"], "sm_90"), 200)) == space[:200]
    assert len(space) > 1000


def test_the_space_begins_with_every_template_as_it_is(space):
    found = templates(operators()["softmax"], "sm_90")
    assert found[0].path == "seed" and found[0].source.strip() == operators()["softmax"].seeds[0].strip()
    assert [point.template for point in space[: len(found)]] == found
    assert not any(point.values for point in space[: len(found)])
    assert len({template.id for template in found}) == len(found)


def test_a_point_is_written_with_its_values(space):
    point = next(point for point in space if "num_warps" in point.values and point.values["num_warps"] != 4)
    text = written(point, "sm_90")
    found = {item.name: item.value for item in parameters_of(text.source, "sm_90")}
    assert found["num_warps"] == point.values["num_warps"] == text.parameters["num_warps"]


def test_a_template_as_it_is_keeps_its_text():
    for name in ("softmax", "swiglu"):
        first = next(points(operators()[name], "sm_90"))
        assert written(first, "sm_90").source == operators()[name].seeds[0]


def test_a_parameter_keeps_its_own_value_among_those_recorded():
    for item in parameters_of(operators()["matmul"].seeds[0], "sm_90"):
        assert item.value in ladder(item) and set(ladder(item)) <= {*item.ladder, item.value}


def test_one_boundary_shape_is_traced_and_every_benchmark_shape_timed():
    shapes = shapes_for("rmsnorm")
    assert [shape.role for shape in shapes] == [ShapeRole.BOUNDARY, ShapeRole.BENCHMARK, ShapeRole.BENCHMARK]
    assert shapes[0].dims == {"M": 17, "N": 129}, "as in the sessions that were recorded"


def test_without_its_card_nothing_is_measured():
    with pytest.raises(WorkerError):
        Measurer(Device.parse("h200"), CardShare(63))


@pytest.fixture
def tracers():
    found = TracerPool(1)
    yield found
    found.close()


def record(folder, supply, tracers, count=2):
    file = OperatorRecording("softmax", folder / "softmax.jsonl")
    with MeasurerSlot(MODEL) as station:
        recording = LandscapeRecording([file], [station], tracers, count)
        recording.prepare()
        recording.run(filter(recording.wanted, supply), 1, TimeAllowance(200.0))
    return read(file.path), recording.counts


def test_a_recording_goes_on_where_it_ended(tmp_path, space, tracers):
    texts = [written(point, "sm_90") for point in (space[0], space[0], space[1])]
    first, counts = record(tmp_path, texts[:2], tracers)
    assert list(first.sources) == [texts[0].digest] and counts["judged"] == 1
    (bundle,) = first.bundles.values()
    assert bundle.outcome is Outcome.CORRECT and bundle.readings.keys() == bundle.times.keys() == first.pacer_us.keys()
    with (tmp_path / "softmax.jsonl").open("a") as file:
        file.write('{"kind": "bundle", "identity"')
    pack(tmp_path / "softmax.jsonl")
    (tmp_path / "softmax.jsonl").unlink()
    second, counts = record(tmp_path, texts, tracers)
    assert list(second.sources) == [texts[0].digest, texts[2].digest] and counts["begun"] == 1
    assert len(second.sessions) == 2 and second.bundles.items() >= first.bundles.items()
