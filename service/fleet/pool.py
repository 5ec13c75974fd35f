"""Pool of local worker processes, by default one per core and one per card; crashed ones are restarted."""

import asyncio
import contextlib
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from service.fleet.devices import benches_for, find_card
from service.fleet.executor_template import ExecutorTemplate
from service.fleet.starts import Starts
from service.settings import usable_cores
from workers.protocol import CardShare, Device
from workers.queue import DISMISSED
from workers.safe_python import PYTHON, safe_environment

COMMAND = (*PYTHON, "-m", "workers", "run")
STOP_S = 15.0
"""Seconds that a worker gets to finish or return its job: a little more than its own limit."""
LOOK_S = 0.1
"""Seconds between two looks if the first worker of a kind is ready."""
FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 30.0
"""Seconds before a crashed worker is restarted; they double from the first to the last."""
STABLE_S = 60.0
"""Seconds of running after which a crash counts as the first of a new row."""
TAIL_BYTES, LAST_LINE_CHARS = 4096, 400
"""Bytes of the workers' log that are read for a worker's last line, and characters of it that are shown."""
RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Missing|Exit)\b: ")
"""Beginning of the last line of a traceback."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JoinInvitation:
    """Service that workers join, if they have no credential of the queue.

    Attributes:
        url: Address of the service.
        token: API token; workers get it through their environment.
    """

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class WorkerStart:
    """Start of worker processes.

    Attributes:
        command: Command that starts a worker, without its options.
        output: File that workers log to; None for this process's standard error.
        template: Template that forks the workers' executors; without one each worker starts its own.
    """

    command: Sequence[str] = COMMAND
    output: Path | None = None
    template: ExecutorTemplate | None = None

    async def spawn(
        self, options: Sequence[str], secret: Mapping[str, str], ready_fd: int
    ) -> asyncio.subprocess.Process:
        """Start a worker.

        Args:
            options: Its options.
            secret: Its secrets, as environment.
            ready_fd: Pipe that it says through that it is ready.
        """
        inherited = [ready_fd]
        command = [*self.command, *options, "--with-parent", str(os.getpid()), "--ready-fd", str(ready_fd)]
        if self.template is not None:
            inherited.append(self.template.start())
            command += ["--template-fd", str(inherited[-1])]
        with contextlib.nullcontext(None) if self.output is None else self.output.open("ab") as errors:
            return await asyncio.create_subprocess_exec(
                *command,
                env={**safe_environment(os.environ), **secret},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                pass_fds=inherited,
            )


class WorkerPool:
    """Local workers that running searches need. They end with this process, however it ends.

    Use it from the main thread: Linux ends a worker with the thread that started it.
    """

    def __init__(
        self,
        queue: str | JoinInvitation,
        *,
        size: int,
        data: Path | None = None,
        sharers: int | None = None,
        start: WorkerStart = WorkerStart(),
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Prepare a pool without starting a process.

        Args:
            queue: Address of the queue, or a service to join. Workers get secrets through their environment, which
                other users cannot read.
            size: Number of workers per kind, 0 for none. One per core is right: a worker does one job at a time.
            data: Folder for results kept between measurements; None for the worker's default.
            sharers: Number of workers that share each card and take turns to measure; None to derive it.
            start: Start of the processes. Its template is closed with the pool.
            first_pause_s: Seconds before a crashed worker is restarted; doubles with every crash in a row.
        """
        self._options = () if isinstance(queue, str) else ("--join", queue.url)
        self._secret = {"REEF_REDIS_URL": queue} if isinstance(queue, str) else {"REEF_TOKEN": queue.token}
        self._size = size
        self._data = data
        self._sharers = sharers
        self._start = start
        self._first_pause_s = first_pause_s
        self._tasks: dict[tuple[str, ...], list[asyncio.Task[None]]] = {}
        self._processes: set[asyncio.subprocess.Process] = set()
        self._sought: set[Device] = set()
        self._starts: dict[tuple[str, ...], Starts] = {}
        self._failing = asyncio.Event()

    @property
    def failing(self) -> tuple[str, ...]:
        """Why workers do not start: for each kind of which none is ready, how the last one ended."""
        return tuple(starts.reason for starts in self._starts.values() if starts.failing)

    async def wait_failing(self) -> str:
        """Wait until some kind of worker does not start, however often it is tried; returns why."""
        await self._failing.wait()
        return "; ".join(self.failing)

    @property
    def pids(self) -> set[int]:
        """Process ids of running workers."""
        return {process.pid for process in self._processes if process.returncode is None}

    async def require(self, device: str) -> None:
        """Ensure that workers trace for a device and, if this machine has such a card, measure on it.

        Idempotent.

        Args:
            device: Name of a device, such as `model:sm_90` or `h200`.
        """
        measuring = Device.parse(device)
        tracing = ("--trace", "--target", measuring.target)
        if not measuring.measures:
            self.keep((*tracing, "--device", device), self._size)
            return
        self.keep(tracing, self._size)
        if self._size and measuring not in self._sought:
            self._sought.add(measuring)
            card = await asyncio.to_thread(find_card, measuring)
            if card is None:
                log.warning("no such card on this machine; a remote worker has to measure", device=device)
            else:
                sharers = self._sharers or benches_for(card, usable_cores())
                self.keep_measuring(measuring, CardShare(card.number, sharers))

    def keep_measuring(self, device: Device, seat: CardShare) -> None:
        """Keep workers that measure on a card of this machine: one, or as many as share it.

        The first one compiles our kernels and opens the card, without others beside it that do the same.
        """
        data = () if self._data is None else ("--data", str(self._data))
        self.keep(("--device", device.name, "--card", str(seat), *data), seat.sharers, led=True)

    def keep(self, options: tuple[str, ...], count: int, *, led: bool = False) -> None:
        """Keep so many workers with these options of `python -m workers run`, if any. Idempotent.

        Args:
            options: Options of each worker.
            count: Number of workers.
            led: True if the others start once the first is ready, or has failed to start.
        """
        if count and options not in self._tasks:
            starts = self._starts[options] = Starts(count)
            waits = [led and number > 0 for number in range(count)]
            self._tasks[options] = [asyncio.create_task(self._keep(options, starts, waits=each)) for each in waits]

    async def dismissed(self) -> None:
        """Wait until the service has dismissed every worker requested so far."""
        await asyncio.gather(*(task for kind in self._tasks.values() for task in kind))

    async def close(self) -> None:
        """Stop all workers: they finish or return their jobs; those that take too long are killed."""
        tasks = [task for kind in self._tasks.values() for task in kind]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._start.template is not None:
            self._start.template.close()

    async def _keep(self, need: tuple[str, ...], starts: Starts, *, waits: bool) -> None:
        """Keep one worker running until cancelled; if it `waits`, after the first of its kind has started."""
        pause_s = self._first_pause_s
        while waits and not starts.led:
            await asyncio.sleep(LOOK_S)
        while True:
            began = time.monotonic()
            start, ready_fd = starts.begin()
            try:
                status = await self._run(need, ready_fd)
                starts.end(start, self._ending(need, status))
            finally:
                starts.close(start)
            if status == DISMISSED:
                log.warning("worker ended: the service does not want it")
                return
            pause_s = self._first_pause_s if time.monotonic() - began > STABLE_S else min(2 * pause_s, LAST_PAUSE_S)
            log.warning("worker ended; starting it again", reason=starts.reason, pause_s=pause_s)
            if starts.failing:
                self._failing.set()
            await asyncio.sleep(pause_s)

    async def _run(self, need: Sequence[str], ready_fd: int) -> int:
        """Run one worker to its end, or until cancelled; returns its exit status."""
        try:
            process = await self._start.spawn((*need, *self._options), self._secret, ready_fd)
        finally:
            os.close(ready_fd)
        self._processes.add(process)
        try:
            return await process.wait()
        finally:
            await self._stop(process)

    def _ending(self, need: Sequence[str], status: int) -> str:
        """How a worker ended, with the last exception in the log, or else its last line."""
        kind = "trace" if "--trace" in need else "measure"
        ended = f"the {kind} worker exited with status {status}"
        output = self._start.output
        if output is None:
            return ended
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in reversed(lines) if line.strip()] or ["it said nothing"]
        last = next(filter(RAISED.match, said), said[0])
        return f"{ended}; see {output}: {last[:LAST_LINE_CHARS]}"

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._processes.discard(process)
