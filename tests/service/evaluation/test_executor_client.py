"""A bench without a queue: it answers, and says what is wrong when it does not."""

import sys
from pathlib import Path

import pytest

from service.errors import ServiceError, Unavailable
from service.evaluation.executor_client import TRIES, LocalExecutor
from tests.workers.queue.samples import trace_job
from workers.protocol import ExecutorReady, Outcome, Report, TraceJob, TraceReport

STAND_IN = (sys.executable, str(Path(__file__).parents[2] / "workers" / "stand_in.py"))
LACKING = '{"kind": "failure", "error": "ToolMissing: no ptxas", "transient": false}'


def bench() -> LocalExecutor:
    return LocalExecutor("trace", command=STAND_IN)


def order(text: str, *, deadline_s: float = 60.0) -> TraceJob:
    return trace_job("job-1", deadline_s=deadline_s).model_copy(update={"source": text})


async def test_it_answers_one_job_after_the_other() -> None:
    async with bench() as warm:
        assert await warm.ready() == ExecutorReady(jail="none", versions={"stand_in": "1"})
        for name in ("job-1", "job-2"):
            report = await warm.run(trace_job(name), TraceReport)
            assert (report.job, report.outcome) == (name, Outcome.CORRECT)


async def test_a_large_job_and_a_large_answer_pass() -> None:
    async with bench() as warm:
        job = trace_job("job-1").model_copy(update={"candidate": "c" * 4_000_000})
        assert (await warm.run(job, TraceReport)).candidate == "c" * 4_000_000


async def test_what_a_machine_can_never_do_is_not_worth_a_retry() -> None:
    async with bench() as warm:
        with pytest.raises(ServiceError, match="no ptxas") as failed:
            await warm.run(order("permanent ToolMissing: no ptxas"), TraceReport)
        assert not isinstance(failed.value, Unavailable)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("transient no memory", "no memory"), ("die", "status 3"), ("say nonsense", "not an answer"), ("", "a trace")],
)
async def test_what_may_pass_is_told_apart(text: str, reason: str) -> None:
    async with bench() as warm:
        with pytest.raises(Unavailable, match=reason):
            await warm.run(order(text), Report if not text else TraceReport)


async def test_a_failure_that_passes_is_tried_again(tmp_path: Path) -> None:
    async with bench() as warm:
        assert (await warm.run(order(f"fail-once {tmp_path / 'failed'}"), TraceReport)).outcome is Outcome.CORRECT
        tries = tmp_path / "tries"
        with pytest.raises(Unavailable, match="no memory"):
            await warm.run(order(f"waits {tries} 9"), TraceReport)
        assert tries.read_text() == "+" * TRIES


async def test_a_bench_that_is_gone_stays_gone() -> None:
    async with bench() as warm:
        with pytest.raises(Unavailable):
            await warm.run(order("die"), TraceReport)
        with pytest.raises(Unavailable, match="not running"):
            await warm.run(trace_job("job-2"), TraceReport)


async def test_a_bench_that_keeps_silent_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.evaluation.executor_client.GRACE_S", 0.1)
    async with bench() as warm:
        with pytest.raises(Unavailable, match="no answer in"):
            await warm.run(order("sleep 600", deadline_s=0.1), TraceReport)


async def test_a_machine_that_lacks_something_says_so() -> None:
    lacking = LocalExecutor("trace", command=(*STAND_IN, "--greeting", LACKING))
    with pytest.raises(Unavailable, match="not ready: ToolMissing: no ptxas"):
        async with lacking as cold:
            await cold.run(trace_job("job-1"), TraceReport)
