"""The executor that traces: `python -m workers.executor trace`."""

import argparse
import importlib.metadata
import os
import time
from contextlib import ExitStack

from workers import sandbox, trace_job
from workers.devices.interpretation import InterpretationUnusable
from workers.devices.prediction import predict_benchmarks
from workers.errors import BadMessage
from workers.executor import OpenedExecutor
from workers.protocol import (
    REASON_CHARS,
    Bundle,
    Device,
    ExecutorReady,
    ExecutorTask,
    MeasureJob,
    ProfileJob,
    TracedVariant,
    TraceJob,
    TraceReport,
)
from workers.protocol.job import PREDICT_S
from workers.recordings import Recordings

LEAST_S = 2.0
"""Seconds that the interpreter needs at least; with less left, a variant is not predicted."""
TRACED_WITH = ("torch", "triton")
"""Packages whose version affects the result of a trace."""


def open_executor(options: argparse.Namespace, _: ExitStack) -> OpenedExecutor:
    """Import and compile what every trace needs. With a recorded device, sources are looked up in its recordings."""
    # Tracing needs no card, and the sandbox hides cards anyway.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    recorded = options.device if options.device is not None and options.device.kind == "recorded" else None
    recordings = None if recorded is None else Recordings(recorded, options.data)

    def work(job: ExecutorTask) -> TraceReport:
        if not isinstance(job, TraceJob) or job.device != recorded:
            where = "" if isinstance(job, ProfileJob) else f" on {job.device}"
            raise BadMessage(f"this executor traces; it cannot {job.kind}{where}")
        if recordings is None or job.source is None:
            report = trace_job.trace(job, options.worker)
            return _with_predictions(report, job) if job.graphs else report
        return recordings.trace(job, job.source, options.worker)

    sandbox.expect_commands()
    trace_job.warm()
    versions = {package: importlib.metadata.version(package) for package in TRACED_WITH}
    return OpenedExecutor(ExecutorReady(jail=sandbox.probe(), versions=versions), work, _foresee, _is_prepared)


def _with_predictions(report: TraceReport, job: TraceJob) -> TraceReport:
    """Add predicted times to all variants that are ready to be judged, as long as there is time."""
    until = time.monotonic() + PREDICT_S
    variants = tuple(_predicted(variant, job, until - time.monotonic()) for variant in report.variants)
    return report.model_copy(update={"variants": variants})


def _predicted(variant: TracedVariant, job: TraceJob, left_s: float) -> TracedVariant:
    if variant.bundle is None:
        return variant
    if left_s < LEAST_S:
        return variant.model_copy(update={"unpredicted": "there was no time left to predict this variant"})
    asked = MeasureJob(
        id=job.id,
        search=job.search,
        candidate=job.candidate or "",
        variant=variant.index,
        bundle=variant.bundle,
        operator=job.operator,
        graphs=job.graphs,
        device=Device(kind="model", subject=job.target),
        source=job.source,
    )
    try:
        return variant.model_copy(update={"predicted_us": predict_benchmarks(asked, variant.readings, left_s)})
    except InterpretationUnusable as unusable:
        return variant.model_copy(update={"unpredicted": str(unusable)[:REASON_CHARS]})


def _foresee(_: Bundle) -> None:
    """Ignore a later job: there is nothing to prepare."""


def _is_prepared(_: Bundle) -> bool:
    """Return True: traces have nothing to prepare."""
    return True
