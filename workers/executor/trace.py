"""The bench that traces: `python -m workers.executor trace`."""

import argparse
import importlib.metadata
import os
from contextlib import ExitStack

from workers import sandbox, trace_job
from workers.errors import BadMessage
from workers.executor import OpenedExecutor
from workers.protocol import Bundle, ExecutorReady, Job, TraceJob, TraceReport
from workers.recordings import Recordings

NICENESS = 5
"""Added to the niceness of the process: a card that waits for a core costs more than a candidate that does."""
TRACED_WITH = ("torch", "triton")
"""Packages whose version decides what a trace yields."""


def open_executor(options: argparse.Namespace, _: ExitStack) -> OpenedExecutor:
    """Import and compile what every trace needs; with a recorded device, what was recorded is asked for sources."""
    os.nice(NICENESS)
    # Nothing that traces has business with a card, and no jail lets it near one.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    recorded = options.device if options.device is not None and options.device.kind == "recorded" else None
    recordings = None if recorded is None else Recordings(recorded, options.data)

    def work(job: Job) -> TraceReport:
        if not isinstance(job, TraceJob) or job.device != recorded:
            raise BadMessage(f"this bench traces; it cannot {job.kind} on {job.device}")
        if recordings is None or job.source is None:
            return trace_job.trace(job, options.worker)
        return recordings.trace(job, job.source, options.worker)

    trace_job.warm()
    versions = {package: importlib.metadata.version(package) for package in TRACED_WITH}
    return OpenedExecutor(ExecutorReady(jail=sandbox.probe(), versions=versions), work, _foresee)


def _foresee(_: Bundle) -> None:
    """There is nothing to prepare."""
