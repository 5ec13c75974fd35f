"""Traces that the processes of one run of the tests share: what is traced in one is found by the others, never later.

A trace depends on its job alone: source, operator, shapes, target and policy; the toolchain is one in a run.
"""

import fcntl
import hashlib
import os
from functools import cache
from pathlib import Path

from workers import trace_job
from workers.protocol import TraceJob, TraceReport

FOLDER = "TESTS_SHARED"
"""Variable that names the folder of the run; where it is not set, as while tests are collected, nothing is shared."""


def trace_once(job: TraceJob) -> TraceReport:
    """The report on a job, traced by whichever test of the run asks first."""
    report = TraceReport.model_validate_json(_found(_anonymous(job).model_dump_json()))
    return report.model_copy(update={"job": job.id, "search": job.search, "candidate": job.candidate})


def _anonymous(job: TraceJob) -> TraceJob:
    """The job without what names it; one without a source has no candidate."""
    candidate = None if job.candidate is None else "candidate"
    return job.model_copy(update={"id": "job", "search": "search", "candidate": candidate})


@cache
def _found(job: str) -> str:
    if FOLDER not in os.environ:
        return _traced(job)
    path = Path(os.environ[FOLDER]) / f"{hashlib.sha256(job.encode()).hexdigest()}.json"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.with_suffix(".new").write_text(_traced(job))
            path.with_suffix(".new").rename(path)
    return path.read_text()


def _traced(job: str) -> str:
    return trace_job.trace(TraceJob.model_validate_json(job), "tester").model_dump_json()
