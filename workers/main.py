"""The lease loop, and `python -m workers`: lease a job, let an executor do it, renew the lease meanwhile, report.

    python -m workers run --trace --target sm_90            trace
    python -m workers run --trace --device model:sm_90      trace and measure, one job at a time
    python -m workers run --device h200 --card cuda:0       measure on a card
    python -m workers run --join URL --trace …              the same as a remote worker, with a token in REEF_TOKEN
    python -m workers bench trace|measure|both …            one executor, in the environment it needs
    python -m workers survey                                what this machine can do, as one JSON object
    python -m workers keep-ptxas 3.9.0                      keep the ptxas of another Triton release
    python -m workers kernelbench                           examine problem files of KernelBench, in sandboxes

This process does not import torch: it keeps its lease if a candidate crashes an executor.
"""

import argparse
import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

import structlog

from workers.errors import Dismissed, ExecutorDied, JobWaits, QueueUnavailable, Transient, WorkerError
from workers.executor_client import ExecutorClient
from workers.joining import ServiceAddress, machine_secret
from workers.keep_ptxas import keep
from workers.logs import configure, ids_of
from workers.options import cache_home, card_arguments, parse
from workers.protocol import (
    Answer,
    AnyReport,
    ConfirmJob,
    ExecutorFailure,
    ExecutorReady,
    PreparedJobs,
    ProfileReport,
    TraceJob,
    bundle_of,
    patience_s,
)
from workers.queue import DISMISSED, Lease, LeaseClient, RemoteLeaseClient, WorkerStatus, lost_report
from workers.safe_python import PYTHON, executor_environment
from workers.sandbox.syscalls import tie_to

WARM_S = 300.0
"""Seconds that an executor may take to import its libraries and set up its sandbox; cold disks are slow."""
BEATS_PER_LEASE = 3
"""Heartbeats in the time after which a lease lapses."""
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0
"""First and longest pause between two attempts to join, seconds; each is twice the one before."""
LOOK_S = 0.2
"""Seconds between two checks for a request to stop."""
AHEAD, AHEAD_OF_CONFIRM = 2, 1
"""Jobs leased in advance beside a job, and beside a confirm, which takes several times as long. On an H200 a tenth of
the measurements waited over 0.8 s for their machine code with one job in advance, and a measurement takes 0.6 s."""
MOST_PASSED = 8
"""Number of times that jobs whose machine code is there go before one whose code is not."""
READY = b"+"
"""Byte that a worker writes to its `--ready-fd`."""
EXECUTOR = "workers.executor"
"""Module of an executor; its first argument is the kind."""
BECOMES = {"survey": "workers.survey", "kernelbench": "workers.kernelbench"}
"""Modules that take the place of this one, by command."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LeasePace:
    """Waiting times of a worker.

    Attributes:
        block_ms: Longest wait for a job, milliseconds; a lapsed lease is noticed no later than this.
        grace_s: Seconds beyond a job's time limit until its executor is killed; executors keep the limit themselves.
        stop_s: Seconds that a running job gets to finish once the worker is asked to stop.
        pause_s: Seconds to wait after a transient failure.
        drop_s: Seconds that a job gets to finish after its lease is lost: starting another executor takes as long.
    """

    block_ms: int = 1_000
    grace_s: float = 30.0
    stop_s: float = 10.0
    pause_s: float = 1.0
    drop_s: float = 10.0


class LeaseLoop:
    """Processes jobs, one at a time, until it is asked to stop. It may lease the next ones in advance."""

    def __init__(
        self,
        lease_client: LeaseClient | RemoteLeaseClient,
        commands: Mapping[str, Sequence[str]],
        pace: LeasePace = LeasePace(),
        *,
        start: Callable[[Sequence[str]], ExecutorClient] = ExecutorClient,
        ahead: LeaseClient | None = None,
        ready_fd: int | None = None,
    ) -> None:
        """Prepare to work.

        Args:
            lease_client: Source of jobs.
            commands: Command line of the executor for each kind of job, `trace` and `measure`; equal ones share one.
            pace: Waiting times.
            start: Starts an executor by its command line.
            ahead: Source of the next jobs while one runs, so that its executor can prepare them; None to lease no
                job in advance.
            ready_fd: Pipe to write one byte to once all executors are ready; it is closed then.
        """
        self._lease_client = lease_client
        self._commands = {kind: tuple(command) for kind, command in commands.items()}
        self._pace = pace
        self._start = start
        self._executors: dict[tuple[str, ...], ExecutorClient] = {}
        self._stop_at: float | None = None
        self._ahead = ahead
        self._next: list[Lease] = []
        self._passed = 0
        self._ready_fd = ready_fd

    def stop(self) -> None:
        """Ask it to stop: the running job may finish, or is released. Safe in a signal handler."""
        self._stop_at = time.monotonic() + self._pace.stop_s

    def run(self) -> None:
        """Work until asked to stop.

        Raises:
            ToolMissing: If this machine lacks a tool that an executor needs.
            ExecutorDied: If an executor cannot be started.
        """
        try:
            while self._stop_at is None:
                self._warm()
                self._tell_ready()
                try:
                    self._turn()
                except Transient as error:
                    log.warning("work failed; trying again", worker=self._lease_client.worker, reason=str(error))
                    self._pause()
        finally:
            for executor in self._executors.values():
                executor.close()
            for lease in self._next:
                self._give_back(lease)
            with contextlib.suppress(QueueUnavailable):
                self._lease_client.depart()

    def _warm(self) -> None:
        """Start the executors that do not run, all at once, and wait until they are ready."""
        commands = dict.fromkeys(self._commands.values())
        missing = [command for command in commands if not self._runs(command)]
        started = {command: self._start(command) for command in missing}
        self._executors.update(started)
        for command, executor in started.items():
            ready = self._await_ready(executor)
            if ready is not None:
                kind = "+".join(kind for kind, other in self._commands.items() if other == command)
                log.info("executor ready", worker=self._lease_client.worker, kind=kind, jail=ready.jail)
                with contextlib.suppress(QueueUnavailable):
                    self._lease_client.announce(jail=ready.jail, versions=ready.versions)

    def _tell_ready(self) -> None:
        if self._ready_fd is not None and self._stop_at is None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, READY)
            os.close(self._ready_fd)
            self._ready_fd = None

    def _runs(self, command: tuple[str, ...]) -> bool:
        return command in self._executors and self._executors[command].alive

    def _await_ready(self, executor: ExecutorClient) -> ExecutorReady | None:
        give_up = time.monotonic() + WARM_S
        while self._stop_at is None:
            ready = executor.ready(LOOK_S)
            if ready is not None:
                return ready
            if time.monotonic() > give_up:
                executor.kill()
                raise ExecutorDied(f"an executor was not ready after {WARM_S:g} s")
        return None

    def _turn(self) -> None:
        self._next = [lease for lease in self._next if self._keeps(lease)]
        is_prepared = bool(self._next)
        lease = self._choose() if is_prepared else self._lease_client.lease(self._pace.block_ms)
        if lease is None:
            return
        executor = self._executors[self._commands["trace" if isinstance(lease.job, TraceJob) else "measure"]]
        log.debug("job taken", worker=self._lease_client.worker, **ids_of(lease.job))
        try:
            if self._ahead is not None:
                self._look_ahead(self._ahead, lease, executor, is_prepared=is_prepared)
            answer = self._await_answer(lease, executor)
            report = None if answer is None else self._report(lease, answer)
        except Transient as error:
            if isinstance(error, ExecutorDied):
                executor.kill()
            self._give_back(lease, last_error=None if isinstance(error, JobWaits) else str(error))
            raise
        if report is not None:
            self._hand_in(lease, report)

    def _choose(self) -> Lease:
        """Take the first job leased in advance that is prepared; the first of all if none is, or it was passed often.

        Raises:
            ExecutorDied: If the executor does not answer.
        """
        first = chosen = self._next[0]
        if len(self._next) > 1 and self._passed < MOST_PASSED and not isinstance(first.job, TraceJob):
            prepared = self._executors[self._commands["measure"]].prepared([lease.job.id for lease in self._next])
            chosen = next((lease for lease in self._next if lease.job.id in prepared), first)
        self._passed = 0 if chosen is first else self._passed + 1
        self._next.remove(chosen)
        return chosen

    def _look_ahead(self, ahead: LeaseClient, lease: Lease, executor: ExecutorClient, *, is_prepared: bool) -> None:
        """Lease the next jobs, if there are some now, and let the executor prepare them behind the present one."""
        if not is_prepared:
            _prepare(executor, lease)
        most = AHEAD_OF_CONFIRM if isinstance(lease.job, ConfirmJob) else AHEAD
        while len(self._next) < most:
            found = ahead.lease(0, busy=lease.job.id)
            if found is None:
                return
            self._next.append(found)
            _prepare(executor, found)

    def _await_answer(self, lease: Lease, executor: ExecutorClient) -> Answer | None:
        """Renew the lease while an executor does the job. Returns None if the lease is lost, or we must stop."""
        beat_s = self._lease_client.lease_ms / 1000 / BEATS_PER_LEASE
        next_beat = time.monotonic() + beat_s
        patience = patience_s(lease.job) + self._pace.grace_s
        deadline = time.monotonic() + patience
        executor.send(lease.job)
        while (answer := executor.poll(min(LOOK_S, beat_s))) is None:
            now = time.monotonic()
            if now > deadline:
                executor.kill()
                raise ExecutorDied(f"no answer within {patience:g} s")
            if self._stop_at is not None and now > self._stop_at:
                executor.kill()
                self._give_back(lease)
                return None
            if now >= next_beat:
                next_beat = now + beat_s
                self._next = [lease for lease in self._next if self._keeps(lease)]
                if not self._keeps(lease):
                    log.info("job taken back", worker=self._lease_client.worker, job=lease.job.id)
                    self._drop(executor)
                    return None
        return answer

    def _drop(self, executor: ExecutorClient) -> None:
        """Wait a while for the answer to a job whose lease is lost, then kill the executor."""
        until = time.monotonic() + self._pace.drop_s
        while executor.poll(LOOK_S) is None:
            if time.monotonic() > until or self._stop_at is not None:
                executor.kill()
                return

    def _keeps(self, lease: Lease) -> bool:
        """Renew the lease. Returns True if it is renewed or the queue is unavailable, so that the job goes on."""
        try:
            return self._lease_client.heartbeat(lease)
        except QueueUnavailable as error:
            log.warning("heartbeat lost", worker=self._lease_client.worker, job=lease.job.id, reason=str(error))
            return True

    def _report(self, lease: Lease, answer: Answer) -> AnyReport:
        """Turn an executor's answer into a report.

        Raises:
            Transient: If another try may succeed.
        """
        if isinstance(answer, ExecutorFailure):
            if answer.waits:
                raise JobWaits(answer.error)
            if answer.transient:
                raise Transient(answer.error)
            log.error(
                "job cannot be done here", worker=self._lease_client.worker, job=lease.job.id, reason=answer.error
            )
            return lost_report(lease.job, self._lease_client.worker, answer.error)
        if isinstance(answer, ExecutorReady | PreparedJobs | ProfileReport) or answer.job != lease.job.id:
            raise ExecutorDied("the executor answered something else than the job")
        return answer

    def _hand_in(self, lease: Lease, report: AnyReport) -> None:
        """Report, retrying while the queue is unavailable: the work is done and must not be lost."""
        while True:
            try:
                self._lease_client.report(lease, report)
                log.debug("report handed in", worker=report.worker, outcome=report.outcome, **ids_of(lease.job))
                return
            except QueueUnavailable:
                if self._stop_at is not None and time.monotonic() > self._stop_at:
                    raise
                log.warning("report waits for the queue", worker=self._lease_client.worker, job=report.job)
                time.sleep(self._pace.pause_s)

    def _give_back(self, lease: Lease, last_error: str | None = None) -> None:
        with contextlib.suppress(QueueUnavailable):
            self._lease_client.release(lease, last_error)

    def _pause(self) -> None:
        end = time.monotonic() + self._pace.pause_s
        while self._stop_at is None and time.monotonic() < end:
            time.sleep(min(LOOK_S, self._pace.pause_s))


def _prepare(executor: ExecutorClient, lease: Lease) -> None:
    """Let an executor prepare a job, unless it is one that traces."""
    if not isinstance(lease.job, TraceJob):
        executor.foresee(lease.job.id, bundle_of(lease.job))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m workers`.

    Returns:
        The exit status: 0 stopped, 1 our machine failed, 2 wrong usage, `DISMISSED` if the service refuses this worker.
    """
    options = parse(arguments, __doc__.splitlines()[0])
    if options.with_parent is not None:
        tie_to(options.with_parent)
    if options.command == "bench":
        _become_executor(options)
    if options.command == "keep-ptxas":
        return keep(options.releases)
    if options.command in BECOMES:
        os.execve(PYTHON[0], [*PYTHON, "-m", BECOMES[options.command]], executor_environment(os.environ))
    configure(os.environ)
    try:
        _run(options)
    except Dismissed as error:
        log.error("worker dismissed", reason=str(error))
        return DISMISSED
    except WorkerError as error:
        log.error("worker failed", worker=options.id, reason=str(error))
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    device = options.device
    lease_client = _join(options) if options.join is not None else _lease_client(options)
    common = ("--worker", lease_client.worker, "--answers", "0")
    commands = {kind: (*executor, *common) for kind, executor in _executors(options).items()}
    prepares = device is not None and device.measures and not options.trace
    ahead = lease_client if prepares and isinstance(lease_client, LeaseClient) else None
    worker = LeaseLoop(
        lease_client,
        commands,
        start=functools.partial(_start, options.template_fd),
        ahead=ahead,
        ready_fd=options.ready_fd,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()


def _start(template: int | None, arguments: Sequence[str]) -> ExecutorClient:
    """Start an executor with some arguments: a fork of the pool's template, or a new process without one."""
    if template is not None:
        return ExecutorClient(arguments, template=template)
    command = (*PYTHON, "-m", EXECUTOR, *arguments, "--with-parent", str(os.getpid()))
    return ExecutorClient(command, executor_environment(os.environ), duplex=True)


def _executors(options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return the arguments of the executor for each kind of job that this worker does."""
    device = options.device
    if options.trace and device is not None and not device.measures:
        return dict.fromkeys(("trace", "measure"), _executor(options, "both"))
    return {
        **({"trace": ("trace",)} if options.trace else {}),
        **({"measure": _executor(options, "measure")} if device is not None else {}),
    }


def _executor(options: argparse.Namespace, kind: str) -> tuple[str, ...]:
    """Return the arguments of an executor."""
    device = () if options.device is None else ("--device", options.device.name)
    return (kind, *device, *card_arguments(options))


def _become_executor(options: argparse.Namespace) -> NoReturn:
    """Become the executor. Answers go to a copy of standard output, which is redirected to standard error."""
    answers = os.dup(1)
    os.set_inheritable(answers, True)
    os.dup2(2, 1)
    arguments = (*_executor(options, options.kind), "--worker", options.worker, "--answers", str(answers))
    os.execve(PYTHON[0], [*PYTHON, "-m", EXECUTOR, *arguments], executor_environment(os.environ))


def _lease_client(options: argparse.Namespace) -> LeaseClient:
    """Return the lease client of a worker that has the service's own credential."""
    target = options.target if options.trace else None
    return LeaseClient(options.redis, options.id, target=target, device=options.device.name if options.device else None)


def _join(options: argparse.Namespace) -> RemoteLeaseClient:
    """Join with a token and return the lease client. Waits for the service if it does not answer."""
    service = ServiceAddress(options.join, options.token, machine_secret(cache_home()))
    if service.exposes_token:
        log.warning("the token is sent unencrypted: use https", service=options.join)
    target, device = options.target if options.trace else None, options.device.name if options.device else None
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            credential = service.join(target=target, device=device)
            break
        except QueueUnavailable as error:
            log.warning("the service does not answer; trying again", reason=str(error), pause_s=pause_s)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
    log.info("joined", worker=credential.worker, service=options.join)
    kinds = (*(("measure",) if device else ()), *(("trace",) if target else ()))
    status = WorkerStatus(id=credential.worker, target=target, device=device, kinds=kinds, seen=datetime.now(UTC))
    return RemoteLeaseClient(credential, lambda: service.status(credential.worker), status=status)
