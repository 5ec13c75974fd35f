"""What a predicted device says of an honest kernel, which it must accept."""

from math import prod

from tests.gpu.contracts import operators, shapes_of
from tests.gpu.honest import Honest
from tests.gpu.judging import trace_job
from tests.traces import trace_once
from workers.devices import ModelDevice
from workers.protocol import Device, MeasureJob, Outcome, Report

GLUON = "/gluon"
"""In the names of honest kernels in Gluon, which a `model` device cannot judge."""


def judge_on_model(kernel: Honest, shapes: int | None = None) -> list[Report]:
    """What a `model` device says of the variants of a kernel at its smallest shapes, or at all of them."""
    operator = operators()[kernel.operator]
    chosen = sorted(shapes_of(operator), key=lambda shape: prod(shape.dims.values()))[:shapes]
    jobs = [trace_job(kernel.name, kernel.operator, source) for source in (None, kernel.source)]
    exported, traced = (trace_once(job.model_copy(update={"shapes": tuple(chosen)})) for job in jobs)
    assert traced.outcome is Outcome.CORRECT, traced.reason
    device = ModelDevice(Device.parse("model:sm_90"), "tester")
    return [
        device.measure(
            MeasureJob(
                id="job",
                search="honest",
                candidate=kernel.name,
                variant=variant.index,
                bundle=variant.bundle,
                operator=operator,
                graphs=exported.graphs,
                device=device.device,
                source=kernel.source,
            )
        )
        for variant in traced.variants
        if variant.bundle is not None
    ]


def assert_accepted(name: str, reports: list[Report]) -> None:
    expected = Outcome.NOT_INTERPRETABLE if GLUON in name else Outcome.CORRECT
    assert reports
    for report in reports:
        assert report.outcome is expected, report.reason
