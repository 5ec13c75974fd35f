"""The report on a job that no worker brought back, or not in a form that we can read."""

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
"""Fields that say which job a report is about, and whose it is."""


def unread_report(text: str, reason: str) -> AnyReport | None:
    """A report with the outcome `worker_lost` on the job of one that cannot be read; None if it names no job.

    Args:
        text: What was handed in, JSON as a rule.
        reason: Why it cannot be read.
    """
    try:
        said = from_json(text)
        return report_instead(said if isinstance(said, dict) else {}, reason)
    except ValueError:
        return None


def report_instead(said: Mapping[str, object], reason: str) -> AnyReport:
    """A report with the outcome `worker_lost`, on the job that another one is about; of that, nothing else is in it.

    Raises:
        ValueError: If the other one does not say which job that is.
    """
    kept = {name: said[name] for name in NAMING if name in said}
    return REPORT.validate_python({**kept, "outcome": Outcome.WORKER_LOST, "reason": reason[:REASON_CHARS]})


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
    """Return the job's subject; empty for a bundle that was never assembled, which is why it got lost."""
    try:
        return job.subject
    except ValueError:
        return ""


def _provenance(device: Device) -> Provenance:
    return PROVENANCE[device.kind]
