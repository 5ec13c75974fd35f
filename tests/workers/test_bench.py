"""The bench process: answers on standard output and nothing else there, failures of ours as failures."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.queue.samples import DEVICE, SHAPE, measure_job, report_on, trace_job
from workers.bench import serve
from workers.errors import JailFailed, ToolMissing
from workers.protocol import ANSWER, Answer, Bundle, Failure, Foresight, Outcome, Ready, TraceReport, Wire

ROOT = Path(__file__).parents[2]


def answers(*lines: bytes, error: Exception | None = None, foreseen: list[Bundle] | None = None) -> list[Wire]:
    """What a bench says to lines; its work is to report, or to raise."""

    def work(job):
        if error is not None:
            raise error
        return report_on(job, "w")

    said: list[Wire] = []
    foreseen = [] if foreseen is None else foreseen
    serve(work, lines, said.append, foreseen.append)
    return said


def line(job) -> bytes:
    return job.model_dump_json().encode() + b"\n"


def test_every_job_is_answered_in_order() -> None:
    said = answers(line(trace_job("job-1")), line(measure_job("job-2")))
    assert [answer.job for answer in said] == ["job-1", "job-2"]


def test_what_comes_later_is_prepared_and_not_answered() -> None:
    bundle, foreseen = measure_job("job-2").bundle, []
    said = answers(line(Foresight(bundle=bundle)), line(measure_job("job-1")), foreseen=foreseen)
    assert [answer.job for answer in said] == ["job-1"]
    assert foreseen == [bundle]


@pytest.mark.parametrize("text", [b"hello\n", b"{}\n", b'{"kind": "elite"}\n'])
def test_what_is_no_job_is_answered_and_the_next_one_too(text: bytes) -> None:
    refused, done = answers(text, line(trace_job("job-1")))
    assert isinstance(refused, Failure) and not refused.transient and "not a job" in refused.error
    assert isinstance(done, TraceReport)


@pytest.mark.parametrize(
    ("error", "transient"), [(JailFailed("no namespace left"), True), (ToolMissing("no ptxas"), False)]
)
def test_a_failure_of_ours_says_whether_a_retry_may_help(error: Exception, transient: bool) -> None:
    [failure] = answers(line(trace_job("job-1")), error=error)
    assert failure == Failure(error=f"{type(error).__name__}: {error}", transient=transient)


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        answers(line(trace_job("job-1")), error=ZeroDivisionError())


class Process:
    """A bench as `python -m workers bench` starts it."""

    def __init__(self, *arguments: str) -> None:
        command = (sys.executable, "-m", "workers", "bench", *arguments)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def ask(self, text: bytes) -> Answer:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> Answer:
        assert self.process.stdout is not None
        return ANSWER.validate_json(self.process.stdout.readline())

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode


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


CHATTER = """
import os, sys
os.write(1, b"a library's chatter at import\\n")
"""


def test_a_device_that_is_not_here_is_answered_and_only_answers_reach_standard_output(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CHATTER)
    start = "import sys; from workers.main import main; main(sys.argv[1:])"
    process = subprocess.run(
        (sys.executable, "-c", start, "bench", "measure", "--device", "mi300x"),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    first, *rest = process.stdout.splitlines()
    assert first == b"a library's chatter at import", "of the first process, before standard output is set aside"
    [failure] = [ANSWER.validate_json(each) for each in rest]
    assert isinstance(failure, Failure) and "ToolMissing" in failure.error and not failure.transient
    assert process.returncode == 1 and b"chatter" in process.stderr


def test_a_card_that_is_not_here_is_answered(tmp_path: Path) -> None:
    process = Process("measure", "--device", "a100", "--card", "cuda:63", "--data", str(tmp_path))
    failure = process.hear()
    assert isinstance(failure, Failure) and process.end() == 1


def test_a_model_bench_takes_no_trace_jobs() -> None:
    process = Process("measure", "--device", DEVICE)
    assert isinstance(process.hear(), Ready)
    failure = process.ask(line(trace_job("job-1")))
    assert isinstance(failure, Failure) and "cannot trace" in failure.error
    assert process.end() == 0
