"""The bench that traces, as a process."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.executor.process import ROOT, Process, line
from tests.workers.queue.samples import SHAPE, measure_job, trace_job
from workers.executor.__main__ import NICENESS
from workers.protocol import ExecutorFailure, ExecutorReady, Outcome, TraceReport

WAIT_S = 30.0
DOUBLE = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * 1.5 + x, mask=at < n)

def double(x):
    y = torch.empty_like(x)
    kernel[(1 if __debug__ else 2,)](x, y, x.numel(), BLOCK=64)
    return y
"""


@pytest.fixture(scope="module")
def tracer() -> Iterator[Process]:
    process = Process("trace", "--worker", "w-1")
    assert isinstance(process.hear(), ExecutorReady)
    yield process
    assert process.end() == 0


def test_a_trace_bench_traces(tracer: Process) -> None:
    report = tracer.ask(line(trace_job("job-1")))
    assert isinstance(report, TraceReport)
    assert (report.job, report.worker, report.candidate) == ("job-1", "w-1", "candidate of job-1")
    assert report.outcome is not Outcome.CORRECT, "the sample's source defines no entry"
    assert report.reason


@pytest.mark.usefixtures("cold")
def test_a_trace_bench_leaves_the_cores_to_those_that_measure_before_it_imports() -> None:
    command = (sys.executable, "-m", "workers.executor", "trace")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        until = time.monotonic() + WAIT_S
        nice = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS["trace"]
        while os.getpriority(os.PRIO_PROCESS, process.pid) != nice and time.monotonic() < until:
            time.sleep(0.01)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == nice
        assert process.stdout is not None and not select.select([process.stdout], [], [], 0)[0], "it is not ready yet"
        process.kill()


def test_a_trace_bench_exports_references(tracer: Process) -> None:
    report = tracer.ask(line(trace_job("job-1").model_copy(update={"source": None, "candidate": None})))
    assert isinstance(report, TraceReport) and report.outcome is Outcome.CORRECT
    assert [graph.shape for graph in report.graphs] == [SHAPE]


def test_a_trace_bench_does_not_measure(tracer: Process) -> None:
    failure = tracer.ask(line(measure_job("job-1")))
    assert isinstance(failure, ExecutorFailure) and "cannot measure" in failure.error and not failure.transient


def test_the_shell_of_who_starts_a_bench_changes_nothing_about_a_trace(tracer: Process, tmp_path: Path) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho release 99.9, V99.9.9\n")
    tool.chmod(0o755)
    swaying = {
        "TRITON_PTXAS_PATH": str(tool),
        "TRITON_DEFAULT_FP_FUSION": "0",
        "TRITON_DEBUG": "1",
        "PYTHONOPTIMIZE": "1",
        "PYTHONWARNINGS": "error",
    }
    swayed = Process("trace", **swaying)
    assert isinstance(swayed.hear(), ExecutorReady)
    job = trace_job("job-1").model_copy(update={"source": DOUBLE})
    said = [each.ask(line(job)) for each in (tracer, swayed)]
    assert swayed.end() == 0
    bundles = [[variant.bundle for variant in each.variants] for each in said if isinstance(each, TraceReport)]
    assert bundles[0] == bundles[1] and bundles[0][0] is not None


def test_a_trace_bench_predicts_what_is_only_checked(tracer: Process) -> None:
    job = trace_job("job-1").model_copy(update={"source": DOUBLE})
    reference = tracer.ask(line(job.model_copy(update={"source": None, "candidate": None})))
    assert isinstance(reference, TraceReport)
    plain, checked = (tracer.ask(line(each)) for each in (job, job.model_copy(update={"graphs": reference.graphs})))
    assert isinstance(plain, TraceReport) and isinstance(checked, TraceReport)
    assert not plain.variants[0].predicted_us
    assert list(checked.variants[0].predicted_us) == [SHAPE.key] and not checked.variants[0].unpredicted
    assert checked.variants[0].bundle == plain.variants[0].bundle
    broken = tracer.ask(line(trace_job("job-2").model_copy(update={"graphs": reference.graphs})))
    assert isinstance(broken, TraceReport) and not any(each.predicted_us for each in broken.variants)
