"""The executor that traces: `python -m workers.executor trace`."""

import argparse
import importlib.metadata
import os
from contextlib import ExitStack

from workers import sandbox, trace_job
from workers.errors import BadMessage
from workers.executor import OpenedExecutor
from workers.protocol import Bundle, ExecutorReady, ExecutorTask, ProfileJob, TraceJob, TraceReport
from workers.recordings import Recordings

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
            return trace_job.trace(job, options.worker)
        return recordings.trace(job, job.source, options.worker)

    trace_job.warm()
    versions = {package: importlib.metadata.version(package) for package in TRACED_WITH}
    return OpenedExecutor(ExecutorReady(jail=sandbox.probe(), versions=versions), work, _foresee)


def _foresee(_: Bundle) -> None:
    """Ignore a later job: there is nothing to prepare."""
