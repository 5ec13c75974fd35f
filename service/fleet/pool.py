"""Pool of local worker processes, by default one per core and one per card; crashed ones are restarted."""

import asyncio
import contextlib
import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import structlog

from service.fleet.devices import benches_for, find_card
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


class WorkerPool:
    """Local workers that running searches need. They end with this process, however it ends.

    Use it from the main thread: Linux ends a worker with the thread that started it.
    """

    def __init__(
        self,
        queue: str | JoinInvitation,
        *,
        size: int,
        output: Path | None = None,
        data: Path | None = None,
        sharers: int | None = None,
        command: Sequence[str] = COMMAND,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Prepare a pool without starting a process.

        Args:
            queue: Address of the queue, or a service to join. Workers get secrets through their environment, which
                other users cannot read.
            size: Number of workers per kind, 0 for none. One per core is right: a worker does one job at a time.
            output: File that workers log to; None for this process's standard error.
            data: Folder for results kept between measurements; None for the worker's default.
            sharers: Number of workers that share each card and take turns to measure; None to derive it.
            command: Command that starts a worker, without its options.
            first_pause_s: Seconds before a crashed worker is restarted; doubles with every crash in a row.
        """
        self._options = () if isinstance(queue, str) else ("--join", queue.url)
        self._secret = {"REEF_REDIS_URL": queue} if isinstance(queue, str) else {"REEF_TOKEN": queue.token}
        self._size = size
        self._output = output
        self._data = data
        self._sharers = sharers
        self._command = command
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
            process = await self._start(need, ready_fd)
        finally:
            os.close(ready_fd)
        try:
            return await process.wait()
        finally:
            await self._stop(process)

    def _ending(self, need: Sequence[str], status: int) -> str:
        """How a worker ended, with the last exception in the log, or else its last line."""
        kind = "trace" if "--trace" in need else "measure"
        ended = f"the {kind} worker exited with status {status}"
        if self._output is None:
            return ended
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in reversed(lines) if line.strip()] or ["it said nothing"]
        last = next(filter(RAISED.match, said), said[0])
        return f"{ended}; see {self._output}: {last[:LAST_LINE_CHARS]}"

    async def _start(self, need: Sequence[str], ready_fd: int) -> asyncio.subprocess.Process:
        with self._errors() as errors:
            process = await asyncio.create_subprocess_exec(
                *(
                    *self._command,
                    *need,
                    *self._options,
                    "--with-parent",
                    str(os.getpid()),
                    "--ready-fd",
                    str(ready_fd),
                ),
                env={**safe_environment(os.environ), **self._secret},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                pass_fds=(ready_fd,),
            )
        self._processes.add(process)
        return process

    def _errors(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        return contextlib.nullcontext(None) if self._output is None else self._output.open("ab")

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._processes.discard(process)
