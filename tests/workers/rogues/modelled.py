"""What is judged on `model`, from a trace."""

from collections.abc import Sequence

from workers.protocol import Device, Graph, MeasureJob, Operator, TraceReport

DEVICE = Device.parse("model:sm_90")


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
