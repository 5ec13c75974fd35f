"""Reports on jobs without a readable report of a worker."""

from collections.abc import Mapping

from pydantic_core import from_json

from workers.protocol import (
    REASON_CHARS,
    REPORT,
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
from workers.queue.report_validation import PROVENANCE

NAMING = ("kind", "job", "search", "candidate", "variant", "bundle", "device", "worker", "provenance")
"""Fields that identify a report's job and worker."""


def unread_report(text: str, reason: str) -> AnyReport | None:
    """Return a report with the outcome `worker_lost` in place of an unreadable one; None if that names no job.

    Args:
        text: The unreadable report, normally JSON.
        reason: Why it cannot be read.
    """
    try:
        said = from_json(text)
        return report_instead(said if isinstance(said, dict) else {}, reason)
    except ValueError:
        return None


def report_instead(said: Mapping[str, object], reason: str) -> AnyReport:
    """Return a report with the outcome `worker_lost` on the job of another report, without its other content.

    Raises:
        ValueError: If the other report does not identify its job.
    """
    kept = {name: said[name] for name in NAMING if name in said}
    return REPORT.validate_python({**kept, "outcome": Outcome.WORKER_LOST, "reason": reason[:REASON_CHARS]})


def lost_report(job: Job, worker: str, reason: str) -> AnyReport:
    """Return a report with the outcome `worker_lost`: our machine failed on this job, and it is not tried again."""
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
    """Return the job's subject; empty for a bundle that was never assembled and was lost because of that."""
    try:
        return job.subject
    except ValueError:
        return ""


def _provenance(device: Device) -> Provenance:
    return PROVENANCE[device.kind]
