"""What is traced, and judged on `model` from its trace."""

from collections.abc import Sequence

from service.operators.shapes import all_shapes
from tests.traces import trace_once
from workers.protocol import Device, Graph, MeasureJob, Operator, TraceJob, TraceReport

DEVICE = Device.parse("model:sm_90")


def trace_of(operator: Operator, source: str | None, seed: int = 5) -> TraceReport:
    """Trace a source at all shapes of an operator; without one, its reference."""
    candidate = None if source is None else "candidate"
    job = TraceJob(
        id="job",
        search="search",
        candidate=candidate,
        source=source,
        operator=operator,
        shapes=all_shapes(operator, seed),
        target="sm_90",
    )
    return trace_once(job)


def model_job(operator: Operator, source: str, traced: TraceReport, graphs: Sequence[Graph]) -> MeasureJob:
    """Judge the first variant of a source."""
    assert traced.variants and traced.variants[0].bundle is not None, traced.reason
    return MeasureJob(
        id="job",
        search="search",
        candidate="candidate",
        variant=0,
        bundle=traced.variants[0].bundle,
        operator=operator,
        graphs=tuple(graphs),
        device=DEVICE,
        source=source,
    )
