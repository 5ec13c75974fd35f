"""A bench of one's own: judge a job on this machine without any queue."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pydantic import ValidationError

from service.errors import ServiceError, Unavailable
from workers.protocol import (
    ANSWER,
    Answer,
    Device,
    ExecutorFailure,
    ExecutorReady,
    Job,
    Report,
    TraceReport,
    patience_s,
)
from workers.safe_python import PYTHON, safe_environment

WARM_S = 300.0
"""Seconds that a bench may take to import its libraries and build its jail; cold disks are slow."""
GRACE_S = 30.0
"""Seconds over a job's deadline before its bench is ended; it keeps the deadline itself, and assembles after it."""
FAREWELL_S = 2.0
"""Seconds that an idle bench gets to end by itself."""
MAX_LINE_BYTES = 1 << 30
"""Longest answer read: sixteen variants of 128 plans, with room."""
COMMAND = (*PYTHON, "-m", "workers", "bench")

Kind = TypeVar("Kind", TraceReport, Report)


class LocalExecutor:
    """A warm process that takes one job at a time. Use as an async context: it gets warm while others do.

    Start it from the main thread: it ends with the thread that started it.
    """

    def __init__(
        self,
        kind: str,
        *,
        device: Device | None = None,
        card: int = 0,
        data: Path | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """Prepare a bench.

        Args:
            kind: `trace`, `measure`, or `both`, which is for devices without a card.
            device: What to measure on. With `both` a recording is asked in place of a compiler.
            card: Which card of this machine, on devices that measure.
            data: Folder for what measuring leaves; None for the worker's own.
            command: What starts a bench, without its options.
        """
        where: tuple[str, ...] = () if device is None else ("--device", device.name)
        if device is not None and device.measures:
            where += ("--card", f"cuda:{card}", *(() if data is None else ("--data", str(data))))
        self._command = (*command, kind, *where, "--with-parent", str(os.getpid()))
        self._process: asyncio.subprocess.Process | None = None
        self._greeting: ExecutorReady | None = None

    async def __aenter__(self) -> Self:
        """Start the process."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=safe_environment(os.environ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        await self._close()

    async def ready(self) -> ExecutorReady:
        """Wait until it is warm; what it said of itself then.

        Raises:
            Unavailable: If it did not get ready; says why.
        """
        if self._greeting is None:
            answer = await self._hear(WARM_S)
            if not isinstance(answer, ExecutorReady):
                raise Unavailable(f"the bench is not ready: {_said(answer)}")
            self._greeting = answer
        return self._greeting

    async def run(self, job: Job, kind: type[Kind]) -> Kind:
        """Have a job done as soon as it is warm; the report is of the type `kind`.

        Raises:
            Unavailable: If the machine failed in a way that may pass.
            ServiceError: If it cannot do this job.
        """
        await self.ready()
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise Unavailable("the bench is not running")
        try:
            process.stdin.write(job.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
        except OSError as error:
            raise Unavailable(f"the bench ended: {error}") from error
        answer = await self._hear(patience_s(job) + GRACE_S)
        if isinstance(answer, kind):
            return answer
        if isinstance(answer, ExecutorFailure) and not answer.transient:
            raise ServiceError(answer.error)
        raise Unavailable(f"the bench failed: {_said(answer)}")

    async def _hear(self, timeout_s: float) -> Answer:
        """Read one answer; a process that gives none is ended."""
        process = self._process
        if process is None or process.stdout is None:
            raise Unavailable("the bench is not running")
        try:
            line = await asyncio.wait_for(process.stdout.readline(), timeout_s)
            return ANSWER.validate_json(line)
        except TimeoutError as error:
            await self._kill(process)
            raise Unavailable(f"the bench gave no answer in {timeout_s:g} s") from error
        except ValidationError as error:
            await self._kill(process)
            raise Unavailable(f"the bench ended with status {process.returncode}") from error

    async def _close(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), FAREWELL_S)
        except TimeoutError:
            await self._kill(process)

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _said(answer: Answer) -> str:
    return answer.error if isinstance(answer, ExecutorFailure) else f"it answered with a {answer.kind}"
