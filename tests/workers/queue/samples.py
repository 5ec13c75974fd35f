"""Jobs and reports, as small as the protocol allows."""

from workers.protocol import (
    Bundle,
    ConfirmJob,
    Device,
    FinalJob,
    MeasureJob,
    Operator,
    Outcome,
    Plan,
    Provenance,
    Report,
    Shape,
    TraceJob,
    TraceReport,
)

DEVICE = "model:sm_90"
SHAPE = Shape(dims={"N": 64})
OPERATOR = Operator.model_validate(
    {
        "name": "double",
        "entry": "double",
        "reference": "def double(x):\n    return x * 2\n",
        "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32"}],
        "shapes": [{"dims": {"N": 64}}],
        "ranges": {"N": [1, 64]},
    }
)
BUNDLE = Bundle(
    target="sm_90", operator=OPERATOR.digest, kernels={}, plans=(Plan(shape=SHAPE, buffers=(), steps=(), outputs=()),)
)


def trace_job(id: str, search: str = "search-1", *, target: str = "sm_90", deadline_s: float = 60.0) -> TraceJob:
    return TraceJob(
        id=id,
        search=search,
        candidate=f"candidate of {id}",
        source="import torch\n",
        operator=OPERATOR,
        shapes=(SHAPE,),
        target=target,
        deadline_s=deadline_s,
    )


def measure_job(id: str, search: str = "search-1", *, device: str = DEVICE) -> MeasureJob:
    return MeasureJob(
        id=id,
        search=search,
        candidate=f"candidate of {id}",
        variant=0,
        bundle=BUNDLE,
        operator=OPERATOR,
        graphs=(),
        device=Device.parse(device),
    )


def confirm_job(id: str, search: str = "search-1", *, device: str = DEVICE) -> ConfirmJob:
    return ConfirmJob(
        id=id,
        search=search,
        candidate=f"candidate of {id}",
        variant=0,
        challenger=BUNDLE,
        operator=OPERATOR,
        graphs=(),
        device=Device.parse(device),
    )


def final_job(id: str, search: str = "search-1", *, device: str = DEVICE) -> FinalJob:
    return FinalJob(
        id=id,
        search=search,
        candidate=f"candidate of {id}",
        variant=0,
        finalist=BUNDLE.identity,
        bundle=BUNDLE,
        operator=OPERATOR,
        graphs=(),
        device=Device.parse(device),
    )


def report_on(job: TraceJob | MeasureJob, worker: str) -> TraceReport | Report:
    if isinstance(job, TraceJob):
        return TraceReport(
            job=job.id, search=job.search, candidate=job.candidate, worker=worker, outcome=Outcome.CORRECT
        )
    return Report(
        job=job.id,
        search=job.search,
        candidate=job.candidate,
        variant=job.variant,
        bundle=job.bundle.identity,
        device=job.device,
        worker=worker,
        outcome=Outcome.CORRECT,
        provenance=Provenance.PREDICTED,
    )
