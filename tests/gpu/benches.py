"""Benches to put work before: one that is replaced when it is lost, and many beside each other."""

import os
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path

from workers.errors import ExecutorDied, WorkerError
from workers.executor_client import ExecutorClient
from workers.protocol import (
    FIRST_CARD,
    Answer,
    CardShare,
    ConfirmJob,
    Device,
    ExecutorFailure,
    FinalJob,
    MeasureJob,
    TraceJob,
    bundle_of,
)

WARM_S = 300.0
"""Seconds that a bench may take to get ready: a host that has just started reads torch from a cold disk."""
PATIENCE_S = 180.0
"""Seconds for one job; attention, the largest, takes ten to be traced on one slow core."""
LOOK_S = 1.0
BENCH = (sys.executable, "-m", "workers", "bench")
TRACE = (*BENCH, "trace")
Job = TraceJob | MeasureJob | ConfirmJob | FinalJob


def measuring(device: Device, seat: CardShare = FIRST_CARD, data: Path | None = None) -> tuple[str, ...]:
    """What starts a bench that measures; `data` is where it keeps baselines; if None every confirm measures them."""
    command = (*BENCH, "measure", "--device", device.name)
    if device.measures:
        command += ("--card", str(seat))
    return command if data is None else (*command, "--data", str(data))


class Served:
    """A bench that is replaced when it is lost. As a context it is started at once, else with its first job.

    Args:
        command: What starts it.
        patience_s: Seconds for one job.
    """

    def __init__(self, command: Sequence[str], patience_s: float = PATIENCE_S) -> None:
        self._command = command
        self._patience_s = patience_s
        self._bench: ExecutorClient | None = None

    def __enter__(self) -> "Served":
        with suppress(WorkerError):
            self._bench = _started(self._command)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, job: Job, then: Job | None = None) -> Answer:
        """Have it do a job, and prepare the one that comes then; a `ExecutorFailure` where the machine failed."""
        try:
            if self._bench is None:
                self._bench = _started(self._command)
            if then is not None and not isinstance(then, TraceJob):
                self._bench.foresee(then.id, bundle_of(then))
            return _asked(self._bench, job, self._patience_s)
        except WorkerError as error:
            self.close()
            return ExecutorFailure(error=f"{type(error).__name__}: {error}", transient=True)

    def close(self) -> None:
        """End it. Idempotent."""
        if self._bench is not None:
            self._bench.kill()
        self._bench = None


class Team:
    """A bench for every thread that asks; each is started with its first job.

    Args:
        command: What starts one.
        patience_s: Seconds for one job.
    """

    def __init__(self, command: Sequence[str], patience_s: float = PATIENCE_S) -> None:
        self._hire = partial(Served, command, patience_s)
        self._mine = threading.local()
        self._benches: list[Served] = []

    def ask(self, job: Job) -> Answer:
        """Have this thread's bench do a job; a `ExecutorFailure` where the machine failed."""
        if not hasattr(self._mine, "bench"):
            self._mine.bench = self._hire()
            self._benches.append(self._mine.bench)
        return self._mine.bench.ask(job)

    def close(self) -> None:
        """End them all, when no thread asks any more. Idempotent."""
        for bench in self._benches:
            bench.close()


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def answers(
    jobs: Mapping[str, Job], command: Sequence[str] = TRACE, processes: int | None = None
) -> Generator[tuple[str, Answer], None, None]:
    """Have benches do jobs, several at once.

    Args:
        jobs: By name.
        command: What starts a bench.
        processes: Benches at once; None for one a core.

    Yields:
        Name and answer, in the order in which they come.
    """
    team = Team(command)
    with ThreadPoolExecutor(min(processes or cores(), max(1, len(jobs)))) as pool:
        names = {pool.submit(team.ask, job): name for name, job in jobs.items()}
        try:
            for future in as_completed(names):
                yield names[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            team.close()


def _started(command: Sequence[str]) -> ExecutorClient:
    bench, until = ExecutorClient(command), time.monotonic() + WARM_S
    while bench.ready(LOOK_S) is None:
        if time.monotonic() > until:
            bench.kill()
            raise ExecutorDied(f"a bench was not ready after {WARM_S:g} s")
    return bench


def _asked(bench: ExecutorClient, job: Job, patience_s: float) -> Answer:
    bench.send(job)
    until = time.monotonic() + patience_s
    while (answer := bench.poll(LOOK_S)) is None:
        if time.monotonic() > until:
            raise ExecutorDied(f"a bench gave no answer in {patience_s:g} s")
    return answer
