"""The report on a job that no worker brought back."""

from workers.protocol import (
    REASON_CHARS,
    AnyReport,
    ConfirmJob,
    Device,
    FinalJob,
    Job,
    MeasureJob,
    Outcome,
    Provenance,
    Report,
    TraceJob,
    TraceReport,
)
from workers.queue.addressing import PROVENANCE


def lost_report(job: Job, worker: str, reason: str) -> AnyReport:
    """A report with the outcome `worker_lost`: our machine failed on this job, for good."""
    reason = reason[:REASON_CHARS]
    if isinstance(job, TraceJob):
        return TraceReport(
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            worker=worker,
            outcome=Outcome.WORKER_LOST,
            reason=reason,
        )
    return Report(
        kind=job.kind,
        job=job.id,
        search=job.search,
        candidate=job.candidate,
        variant=job.variant,
        bundle=_subject(job),
        device=job.device,
        worker=worker,
        outcome=Outcome.WORKER_LOST,
        reason=reason,
        provenance=_provenance(job.device),
    )


def _subject(job: MeasureJob | ConfirmJob | FinalJob) -> str:
    """What the job is about; empty for a bundle that was never assembled, which is why it got lost."""
    try:
        return job.subject
    except ValueError:
        return ""


def _provenance(device: Device) -> Provenance:
    return PROVENANCE[device.kind]
