"""Validation that a report answers the job of its worker: the same candidate, bundle, device and protocol."""

import math

from workers.protocol import (
    AnyReport,
    Job,
    Provenance,
    Report,
    TraceJob,
    TraceReport,
)

PROVENANCE = {"cuda": Provenance.MEASURED, "model": Provenance.PREDICTED, "recorded": Provenance.RECORDED}
"""Source of the figures on each kind of device."""

VERDICT_BYTES = 1 << 20
"""Maximum length of a report on one variant, bytes; one of sixteen shapes with all checks takes a few kilobytes."""


def require_match(job: Job, report: AnyReport) -> None:
    """Refuse a report that does not answer a job.

    Raises:
        ValueError: If a field differs from the job's; names the field.
    """
    asked: dict[str, object] = {"kind": job.kind, "job": job.id, "search": job.search, "candidate": job.candidate}
    asked["protocol_version"] = job.protocol_version
    if not isinstance(job, TraceJob):
        asked |= {"variant": job.variant, "device": job.device, "provenance": PROVENANCE[job.device.kind]}
        asked["bundle"] = job.subject
    for name, value in asked.items():
        if getattr(report, name, None) != value:
            raise ValueError(f"its {name} differs from the job's")
    if isinstance(job, TraceJob) and isinstance(report, TraceReport):
        _is_of(job, report)
    elif isinstance(job, TraceJob) or not isinstance(report, Report):
        raise ValueError(f"a {report.kind} report does not answer a {job.kind} job")
    else:
        _can_be(report)


def _can_be(report: Report) -> None:
    """Refuse impossible figures: times and ratios must be positive, finite and in order.

    The card's sheet must be of the device's hardware class, so that figures of another product are not accepted.
    """
    if report.card is not None and (not report.device.measures or report.card.device_class != report.device.name):
        raise ValueError(f"it was measured on another card than {report.device.name}")
    if len(report.model_dump_json()) > VERDICT_BYTES:
        raise ValueError(f"it is longer than {VERDICT_BYTES} bytes")
    spans = [(shape.low_us, shape.mid_us, shape.high_us) for shape in report.shapes]
    ratios = (report.over_pacer, report.pacer_speedup, report.speedup, report.rival)
    spans += [(ratio.low, ratio.mid, ratio.high) for ratio in ratios if ratio is not None]
    for span in spans:
        known = [figure for figure in span if figure is not None]
        if known != sorted(known) or not all(0 < figure < math.inf for figure in known):
            raise ValueError("its figures are impossible: times and ratios must be positive, finite and in order")


def _is_of(job: TraceJob, report: TraceReport) -> None:
    """Refuse traces for another operator or target, or with other shapes than the job's."""
    if job.source is not None and ((report.graphs and not job.references) or report.gate is not None):
        raise ValueError("it has reference graphs, which the job did not request")
    indexes = [variant.index for variant in report.variants]
    if len(set(indexes)) != len(indexes):
        raise ValueError("two variants have one index")
    for variant in report.variants:
        bundle = variant.bundle
        if bundle is None:
            continue
        if (bundle.operator, bundle.target) != (job.operator.digest, job.target):
            raise ValueError("a bundle is for another operator or target")
        if job.compiler is not None and (bundle.toolchain is None or bundle.toolchain.release != job.compiler):
            raise ValueError(f"a bundle is not from Triton {job.compiler}")
        if tuple(plan.shape for plan in bundle.plans) != job.shapes or len(variant.readings) != len(job.shapes):
            raise ValueError("a bundle does not have exactly the job's shapes")
