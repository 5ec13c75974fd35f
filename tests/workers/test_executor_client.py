"""The worker's view of a bench: a process that answers, fails, lies or dies."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workers.queue.samples import trace_job
from workers.errors import ExecutorDied, ToolMissing
from workers.executor_client import ExecutorClient
from workers.protocol import ExecutorFailure, ExecutorReady, Outcome, TraceReport

STAND_IN = Path(__file__).with_name("stand_in.py")
LONG_S = 60.0

Launch = Callable[..., ExecutorClient]


@pytest.fixture
def launch() -> Iterator[Launch]:
    benches: list[ExecutorClient] = []

    def launch(*arguments: str) -> ExecutorClient:
        benches.append(ExecutorClient((sys.executable, str(STAND_IN), "w", *arguments)))
        return benches[-1]

    yield launch
    for bench in benches:
        bench.kill()


def order(text: str) -> object:
    return trace_job("job-1").model_copy(update={"source": text})


def test_a_bench_gets_ready_and_answers(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S) == ExecutorReady(jail="none", versions={"stand_in": "1"})
    for name in ("job-1", "job-2"):
        bench.send(trace_job(name))
        answer = bench.poll(LONG_S)
        assert isinstance(answer, TraceReport) and (answer.job, answer.outcome) == (name, Outcome.CORRECT)


def test_a_job_larger_than_any_buffer_passes(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(trace_job("job-1").model_copy(update={"candidate": "c" * 4_000_000}))
    answer = bench.poll(LONG_S)
    assert isinstance(answer, TraceReport) and answer.candidate == "c" * 4_000_000


def test_no_answer_in_time_is_no_failure(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(order("sleep 0.3"))
    assert bench.poll(0.01) is None
    assert bench.poll(LONG_S) is not None


def test_a_bench_that_ends_says_with_what_status(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(order("die"))
    with pytest.raises(ExecutorDied, match=r"status 3$"):
        bench.poll(LONG_S)
    assert not bench.alive


def test_a_bench_that_ends_says_its_last_words(launch: Launch) -> None:
    bench = launch("--greeting")
    with pytest.raises(ExecutorDied, match=r"status 2: .*expected one argument$"):
        bench.ready(LONG_S)


@pytest.mark.parametrize("line", ["hello", '{"kind": "trace"}', '{"kind": "elite"}'])
def test_what_is_no_answer_ends_the_bench(launch: Launch, line: str) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(order(f"say {line}"))
    with pytest.raises(ExecutorDied, match="not an answer"):
        bench.poll(LONG_S)
    assert not bench.alive


def test_a_failure_of_the_machine_is_told_apart(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(order("transient no memory"))
    assert bench.poll(LONG_S) == ExecutorFailure(error="no memory", transient=True)


def test_a_machine_that_lacks_something_is_told_apart_from_one_that_failed(launch: Launch) -> None:
    lacking = launch("--greeting", '{"kind": "failure", "error": "ToolMissing: no card", "transient": false}')
    with pytest.raises(ToolMissing, match="no card"):
        lacking.ready(LONG_S)
    failed = launch("--greeting", '{"kind": "failure", "error": "no memory", "transient": true}')
    with pytest.raises(ExecutorDied, match="no memory"):
        failed.ready(LONG_S)


def test_an_idle_bench_ends_when_it_is_closed(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.close()
    bench.close()
    assert not bench.alive


def test_a_busy_bench_can_be_killed(launch: Launch) -> None:
    bench = launch()
    assert bench.ready(LONG_S)
    bench.send(order("sleep 600"))
    assert bench.poll(0.05) is None
    bench.kill()
    bench.kill()
    assert not bench.alive
