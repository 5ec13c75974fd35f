import pytest

from service.operators.shapes import all_shapes
from tests.gpu.contracts import operators
from tests.imagined import imagine
from workers.devices.recorded import RecordedDevice
from workers.protocol import Device, MeasureJob, Outcome, Provenance, TraceJob
from workers.recordings import Recordings

DEVICE = Device.parse("recorded:h200")
OPERATOR = operators()["rmsnorm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def landscape(folder):
    return imagine(folder, count=3)


def measure_job(folder, source):
    shapes = all_shapes(OPERATOR, 1)
    traced = TraceJob(id="t", search="s", source=source, operator=OPERATOR, shapes=shapes, target="sm_90")
    (variant,) = Recordings(DEVICE, folder).trace(traced, source, "w").variants
    return MeasureJob(
        id="m", search="s", candidate="c", variant=0, bundle=variant.bundle, operator=OPERATOR, graphs=(),
        device=DEVICE,
    )  # fmt: skip


def test_times_are_the_pacers_times_the_ratio(folder, landscape):
    for source in landscape.templates.values():
        job = measure_job(folder, source.source)
        report = RecordedDevice(DEVICE, "w", folder=folder).measure(job)
        recorded = landscape.bundles[job.bundle.recorded]
        assert (report.outcome, report.provenance) == (Outcome.CORRECT, Provenance.RECORDED)
        assert [shape.shape for shape in report.shapes] == list(recorded.times)
        for shape in report.shapes:
            timed = recorded.times[shape.shape]
            assert (shape.low_us, shape.mid_us, shape.high_us) == (
                20.0 * timed.low, 20.0 * timed.mid, 20.0 * timed.high
            )  # fmt: skip
            assert shape.readings == recorded.readings[shape.shape]


def test_a_shape_without_a_time_is_not_recorded(folder, landscape):
    job = measure_job(folder, OPERATOR.seeds[0])
    plans = [plan.model_copy(update={"shape": plan.shape.model_copy(update={"dims": {"M": 7, "N": 7}})})
             for plan in job.bundle.benchmarks]  # fmt: skip
    other = job.model_copy(update={"bundle": job.bundle.model_copy(update={"plans": tuple(plans)})})
    report = RecordedDevice(DEVICE, "w", folder=folder).measure(other)
    assert report.outcome is Outcome.NOT_RECORDED and "M=7,N=7" in report.reason and not report.shapes


def test_a_bundle_that_was_really_traced_is_not_recorded(folder, landscape):
    job = measure_job(folder, OPERATOR.seeds[0])
    real = job.model_copy(update={"bundle": job.bundle.model_copy(update={"recorded": None})})
    assert RecordedDevice(DEVICE, "w", folder=folder).measure(real).outcome is Outcome.NOT_RECORDED
