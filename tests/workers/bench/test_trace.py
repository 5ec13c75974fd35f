"""The bench that traces, as a process."""

from collections.abc import Iterator

import pytest

from tests.workers.bench.process import Process, line
from tests.workers.queue.samples import SHAPE, measure_job, trace_job
from workers.protocol import Failure, Outcome, Ready, TraceReport


@pytest.fixture(scope="module")
def tracer() -> Iterator[Process]:
    process = Process("trace", "--worker", "w-1")
    assert isinstance(process.hear(), Ready)
    yield process
    assert process.end() == 0


def test_a_trace_bench_traces(tracer: Process) -> None:
    report = tracer.ask(line(trace_job("job-1")))
    assert isinstance(report, TraceReport)
    assert (report.job, report.worker, report.candidate) == ("job-1", "w-1", "candidate of job-1")
    assert report.outcome is not Outcome.CORRECT, "the sample's source defines no entry"
    assert report.reason


def test_a_trace_bench_exports_references(tracer: Process) -> None:
    report = tracer.ask(line(trace_job("job-1").model_copy(update={"source": None, "candidate": None})))
    assert isinstance(report, TraceReport) and report.outcome is Outcome.CORRECT
    assert [graph.shape for graph in report.graphs] == [SHAPE]


def test_a_trace_bench_does_not_measure(tracer: Process) -> None:
    failure = tracer.ask(line(measure_job("job-1")))
    assert isinstance(failure, Failure) and "cannot measure" in failure.error and not failure.transient
