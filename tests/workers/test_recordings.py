import pytest

from service.operators.shapes import all_shapes
from tests.gpu.contracts import operators
from tests.imagined import FAILING, imagine
from workers.protocol import Device, Outcome, ShapeRole, TraceJob
from workers.recordings import NOTHING_READ, SHIPPED, Recordings

DEVICE = Device.parse("recorded:h200")
OPERATOR = operators()["rmsnorm"]
SEED = OPERATOR.seeds[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def landscape(folder):
    return imagine(folder, count=FAILING + 1)


def trace(folder, source, operator=OPERATOR):
    job = TraceJob(
        id="j", search="s", candidate="c", source=source, operator=operator, shapes=all_shapes(operator, 1),
        target="sm_90", device=DEVICE,
    )  # fmt: skip
    return job, Recordings(DEVICE, folder).trace(job, source, "w")


@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in (SHIPPED / "h200").iterdir()))
def test_the_seed_of_every_shipped_recording_is_in_it(name):
    operator = operators()[name]
    _, report = trace(None, operator.seeds[0], operator)
    assert (report.outcome, report.reason) == (Outcome.CORRECT, "")


def test_a_recorded_source_has_a_bundle_that_says_which_it_stands_for(folder, landscape):
    job, report = trace(folder, SEED + "\n# a comment\n")
    (variant,) = report.variants
    assert (report.outcome, variant.outcome) == (Outcome.CORRECT, Outcome.CORRECT)
    assert (variant.bundle.recorded, variant.bundle.kernels) == (next(iter(landscape.bundles)), {})
    assert tuple(plan.shape for plan in variant.bundle.plans) == job.shapes
    assert report.versions == {"triton": "0.0"}


def test_readings_are_there_where_they_were_recorded(folder, landscape):
    job, report = trace(folder, SEED)
    for shape, readings in zip(job.shapes, report.variants[0].readings, strict=True):
        assert (readings == NOTHING_READ) is (shape.role is not ShapeRole.BENCHMARK)


def test_bundles_of_two_kernels_are_two(folder, landscape):
    sources = [landscape.templates[item.template].source for item in landscape.sources.values() if item.variants]
    found = [trace(folder, source)[1].variants[0].bundle.identity for source in sources]
    assert len(set(found)) == len(sources) == FAILING
    assert not set(found) & landscape.bundles.keys(), "what a recording stands for is not what it is"


def test_what_failed_then_fails_now(folder, landscape):
    failed = next(item for item in landscape.sources.values() if not item.variants)
    _, report = trace(folder, landscape.templates[failed.template].source)
    assert (report.outcome, report.reason, report.variants) == (Outcome.COMPILE_ERROR, "imagined", ())


@pytest.mark.parametrize("source", ["x = 1\n", "x = = 1\n", "(" * 100_000])
def test_what_was_never_traced_is_not_recorded(folder, landscape, source):
    _, report = trace(folder, source)
    assert report.outcome is Outcome.NOT_RECORDED and "this text" in report.reason


def test_an_operator_of_the_same_name_is_another_one(folder, landscape):
    other = OPERATOR.model_copy(update={"reference": OPERATOR.reference + "\n"})
    _, report = trace(folder, SEED, other)
    assert report.outcome is Outcome.NOT_RECORDED and "no recording of 'rmsnorm'" in report.reason


def test_predictions_are_no_recording(tmp_path):
    operator = operators()["rope"]  # Of which no recording comes with the catalogue.
    imagine(tmp_path, "rope", count=1, device="model:sm_90")
    (tmp_path / "landscapes" / "sm_90").rename(tmp_path / "landscapes" / "h200")
    assert trace(tmp_path, operator.seeds[0], operator)[1].outcome is Outcome.NOT_RECORDED
