"""Local executor: judges jobs on this machine without a queue."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar

from service.errors import ServiceError, Unavailable
from workers.executor_client import ExecutorClient, ExecutorDied
from workers.protocol import (
    Answer,
    Device,
    ExecutorFailure,
    ExecutorReady,
    ExecutorTask,
    ProfileReport,
    Report,
    TraceReport,
    patience_s,
)
from workers.safe_python import PYTHON

WARM_S = 300.0
"""Seconds that an executor may take to import its libraries and build its sandbox; cold disks are slow."""
GRACE_S = 30.0
"""Seconds over a job's deadline before the executor is killed: it keeps the deadline itself, and assembles after it."""
TRIES = 3
"""Number of tries of a job whose failure may pass, as many as a queue's `MAX_DELIVERIES`."""
COMMAND = (*PYTHON, "-m", "workers", "bench")

Kind = TypeVar("Kind", TraceReport, Report, ProfileReport)


class LocalExecutor:
    """Executor process of this process, one job at a time. Use as an async context; it warms up in the background.

    Start it from the main thread: the process ends with the thread that started it.
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
        """Prepare without starting the process.

        Args:
            kind: `trace`, `measure`, or `both`, which is for devices without a card.
            device: Device to measure on. With `both`, a recording replaces the compiler.
            card: Number of this machine's card, on devices that measure.
            data: Folder for figures of baselines and raw samples; None for the worker's own.
            command: Command that starts an executor, without its options.
        """
        options: tuple[str, ...] = () if device is None else ("--device", device.name)
        if device is not None and device.measures:
            options += ("--card", f"cuda:{card}", *(() if data is None else ("--data", str(data))))
        self._command = (*command, kind, *options, "--with-parent", str(os.getpid()))
        self._client: ExecutorClient | None = None
        self._greeting: ExecutorReady | None = None

    async def __aenter__(self) -> Self:
        """Start the process."""
        self._client = ExecutorClient(self._command)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def ready(self) -> ExecutorReady:
        """Wait until the executor is warm, and return its greeting.

        Raises:
            Unavailable: If it did not get ready; says why.
        """
        if self._greeting is None:
            answer = await self._answer(self._running(), WARM_S)
            if not isinstance(answer, ExecutorReady):
                raise Unavailable(f"the executor is not ready: {_described(answer)}")
            self._greeting = answer
        return self._greeting

    async def run(self, job: ExecutorTask, kind: type[Kind]) -> Kind:
        """Have a job done once the executor is warm; the report is of the type `kind`.

        A failure that may pass, such as that of a card whose controls another program disturbed, is tried again.

        Raises:
            Unavailable: If the machine failed in a way that may pass.
            ServiceError: If the machine can never do this job.
        """
        await self.ready()
        for _ in range(TRIES):
            client = self._running()
            client.send(job)
            answer = await self._answer(client, patience_s(job) + GRACE_S)
            if isinstance(answer, kind):
                return answer
            if not isinstance(answer, ExecutorFailure):
                break
            if not answer.transient:
                raise ServiceError(answer.error)
        raise Unavailable(f"the executor failed: {_described(answer)}")

    def _running(self) -> ExecutorClient:
        if self._client is None or not self._client.alive:
            raise Unavailable("the executor is not running")
        return self._client

    async def _answer(self, client: ExecutorClient, timeout_s: float) -> Answer:
        """Wait for one answer; a process that gives none is killed."""
        until = monotonic() + timeout_s
        try:
            while (answer := client.poll(0)) is None:
                async with asyncio.timeout(until - monotonic()):
                    await _movable(client)
        except TimeoutError as error:
            client.kill()
            raise Unavailable(f"the executor gave no answer in {timeout_s:g} s") from error
        except ExecutorDied as error:
            raise Unavailable(str(error)) from error
        return answer


async def _movable(client: ExecutorClient) -> None:
    """Wait until the process has sent something, or can take more of what is left to send."""
    loop = asyncio.get_running_loop()
    ready, link = asyncio.Event(), client.fileno()
    loop.add_reader(link, ready.set)
    if client.is_sending:
        loop.add_writer(link, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(link)
        loop.remove_writer(link)


def _described(answer: Answer) -> str:
    return answer.error if isinstance(answer, ExecutorFailure) else f"it answered with a {answer.kind}"
