"""What every bench does: it answers each job, failures of ours as failures."""

import os

import pytest

from tests.workers.executor.process import line
from tests.workers.queue.samples import measure_job, report_on, trace_job
from workers.devices.card_processes import CardMemoryShort
from workers.errors import SandboxFailed, ToolMissing
from workers.executor import OpenedExecutor, lines_from, serve
from workers.protocol import (
    Bundle,
    ExecutorFailure,
    ExecutorForesight,
    ExecutorReady,
    Kernel,
    PreparedJobs,
    PreparedQuery,
    TraceReport,
    WireModel,
)


def answers(*lines: bytes, error: Exception | None = None, foreseen: list[Bundle] | None = None) -> list[WireModel]:
    """What a bench says to lines; its work is to report, or to raise."""

    def work(job):
        if error is not None:
            raise error
        return report_on(job, "w")

    said: list[WireModel] = []
    foreseen = [] if foreseen is None else foreseen
    ready = ExecutorReady(jail="none")
    serve(OpenedExecutor(ready, work, foreseen.append, lambda bundle: not bundle.kernels), lines, said.append)
    return said


def test_every_job_is_answered_in_order() -> None:
    said = answers(line(trace_job("job-1")), line(measure_job("job-2")))
    assert [answer.job for answer in said] == ["job-1", "job-2"]


def test_what_comes_later_is_prepared_and_not_answered() -> None:
    bundle, foreseen = measure_job("job-2").bundle, []
    told = line(ExecutorForesight(job="job-2", bundle=bundle))
    said = answers(told, line(measure_job("job-1")), foreseen=foreseen)
    assert [answer.job for answer in said] == ["job-1"]
    assert foreseen == [bundle]


def test_an_executor_says_which_of_the_foreseen_jobs_are_prepared() -> None:
    ready, kernel = measure_job("ready").bundle, Kernel(language="ptx", assembly="", target="sm_90", num_warps=4)
    slow = ready.model_copy(update={"kernels": {kernel.digest: kernel}})
    told = [ExecutorForesight(job="slow", bundle=slow), ExecutorForesight(job="ready", bundle=ready)]
    asked = [PreparedQuery(jobs=jobs) for jobs in (("slow", "ready", "unknown"), ("slow",), ("ready",))]
    said = answers(*map(line, [*told, *asked]))
    # What is not asked about any more is forgotten.
    assert said == [PreparedJobs(jobs=("ready",)), PreparedJobs(jobs=()), PreparedJobs(jobs=())]


@pytest.mark.parametrize("text", [b"hello\n", b"{}\n", b'{"kind": "elite"}\n'])
def test_what_is_no_job_is_answered_and_the_next_one_too(text: bytes) -> None:
    refused, done = answers(text, line(trace_job("job-1")))
    assert isinstance(refused, ExecutorFailure) and not refused.transient and "not a job" in refused.error
    assert isinstance(done, TraceReport)


@pytest.mark.parametrize(
    ("error", "transient", "waits"),
    [
        (SandboxFailed("no namespace left"), True, False),
        (ToolMissing("no ptxas"), False, False),
        (CardMemoryShort("no room for an arena"), True, True),
    ],
)
def test_a_failure_of_ours_says_whether_a_retry_may_help(error: Exception, transient: bool, waits: bool) -> None:
    [failure] = answers(line(trace_job("job-1")), error=error)
    assert failure == ExecutorFailure(error=f"{type(error).__name__}: {error}", transient=transient, waits=waits)


def test_an_executor_without_messages_rests_again_and_again() -> None:
    reading, writing = os.pipe()
    rested: list[int] = []

    def rest() -> None:
        rested.append(len(got))
        if len(rested) == 3:
            os.write(writing, b"second\nthi")
        if len(rested) == 4:
            os.write(writing, b"rd\nlast")
            os.close(writing)

    os.write(writing, b"first\n")
    got: list[bytes] = []
    for each in lines_from(reading, rest, rest_s=0.01):
        got.append(each)
    os.close(reading)
    assert got == [b"first", b"second", b"third", b"last"] and rested == [1, 1, 1, 2]


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        answers(line(trace_job("job-1")), error=ZeroDivisionError())
