"""The bench that traces and measures, as a process."""

from tests.workers.executor.process import Process, line
from tests.workers.queue.samples import DEVICE, measure_job, trace_job
from workers.protocol import ExecutorFailure, ExecutorReady, TraceReport


def test_one_process_traces_and_measures() -> None:
    process = Process("both", "--device", DEVICE, "--worker", "w-1")
    ready = process.hear()
    assert isinstance(ready, ExecutorReady) and {"torch", "triton", "ptxas"} <= set(ready.versions)
    traced = process.ask(line(trace_job("job-1")))
    assert isinstance(traced, TraceReport) and (traced.job, traced.worker) == ("job-1", "w-1")
    failure = process.ask(line(measure_job("job-2")))
    assert process.end() == 0
    assert isinstance(failure, ExecutorFailure) and "needs a source" in failure.error, (
        "so the sample's job came to the device"
    )
