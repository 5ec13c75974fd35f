"""What every bench does: it answers each job, failures of ours as failures."""

import pytest

from tests.workers.executor.process import line
from tests.workers.queue.samples import measure_job, report_on, trace_job
from workers.errors import SandboxFailed, ToolMissing
from workers.executor import OpenedExecutor, serve
from workers.protocol import Bundle, ExecutorFailure, ExecutorForesight, ExecutorReady, TraceReport, WireModel


def answers(*lines: bytes, error: Exception | None = None, foreseen: list[Bundle] | None = None) -> list[WireModel]:
    """What a bench says to lines; its work is to report, or to raise."""

    def work(job):
        if error is not None:
            raise error
        return report_on(job, "w")

    said: list[WireModel] = []
    foreseen = [] if foreseen is None else foreseen
    serve(OpenedExecutor(ExecutorReady(jail="none"), work, foreseen.append), lines, said.append)
    return said


def test_every_job_is_answered_in_order() -> None:
    said = answers(line(trace_job("job-1")), line(measure_job("job-2")))
    assert [answer.job for answer in said] == ["job-1", "job-2"]


def test_what_comes_later_is_prepared_and_not_answered() -> None:
    bundle, foreseen = measure_job("job-2").bundle, []
    said = answers(line(ExecutorForesight(bundle=bundle)), line(measure_job("job-1")), foreseen=foreseen)
    assert [answer.job for answer in said] == ["job-1"]
    assert foreseen == [bundle]


@pytest.mark.parametrize("text", [b"hello\n", b"{}\n", b'{"kind": "elite"}\n'])
def test_what_is_no_job_is_answered_and_the_next_one_too(text: bytes) -> None:
    refused, done = answers(text, line(trace_job("job-1")))
    assert isinstance(refused, ExecutorFailure) and not refused.transient and "not a job" in refused.error
    assert isinstance(done, TraceReport)


@pytest.mark.parametrize(
    ("error", "transient"), [(SandboxFailed("no namespace left"), True), (ToolMissing("no ptxas"), False)]
)
def test_a_failure_of_ours_says_whether_a_retry_may_help(error: Exception, transient: bool) -> None:
    [failure] = answers(line(trace_job("job-1")), error=error)
    assert failure == ExecutorFailure(error=f"{type(error).__name__}: {error}", transient=transient)


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        answers(line(trace_job("job-1")), error=ZeroDivisionError())
