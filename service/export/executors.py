"""Executors of an export: those that trace, as many as idle cores suffice for, and the one that judges on a card."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from service.errors import Unavailable
from service.evaluation.executor_client import COMMAND, LocalExecutor
from service.fleet.devices import LocalCard, describe_cards, local_cards
from workers.protocol import Device, MeasureJob, Report, TraceJob, TraceReport

MOST_TRACERS = 4
"""Maximum number of executors that trace: a package has at most four elites, and each import of torch takes a core for
five seconds."""
CORES_PER_TRACER = 4
"""Cores per executor that traces: a trace uses one or two, and the card's processes some of the others."""
Result = TypeVar("Result", TraceReport, Report)


class _Pool:
    """Executors that do jobs of one kind, one job at a time each."""

    def __init__(self, executors: Sequence[LocalExecutor]) -> None:
        self._free = asyncio.Queue[LocalExecutor]()
        for executor in executors:
            self._free.put_nowait(executor)

    async def run(self, job: TraceJob | MeasureJob, kind: type[Result]) -> Result:
        """Have the next free executor do a job."""
        executor = await self._free.get()
        try:
            return await executor.run(job, kind)
        finally:
            self._free.put_nowait(executor)


class ExportExecutors:
    """The executors that trace and judge the modules of an export. Use as an async context.

    All are started at once, so that traces do not wait for the card to be opened. Jobs may be given concurrently.

    Attributes:
        device: Device that judges, as soon as `judging` has returned: the elites' own, another hardware class of their
            target that this machine has, or the interpreter.
    """

    def __init__(
        self, wanted: Device, *, command: Sequence[str] = COMMAND, cards: Sequence[LocalCard] | None = None
    ) -> None:
        """Prepare without starting an executor.

        Args:
            wanted: Device of the elites.
            command: Command that starts an executor, without its options.
            cards: Cards of this machine; None looks for them.
        """
        self._wanted, self._command, self._cards = wanted, command, cards
        self._resources = AsyncExitStack()
        self.device, self._reason = wanted, ""

    async def __aenter__(self) -> Self:
        """Start the executors."""
        cards: Sequence[LocalCard] = ()
        if self._wanted.measures:
            cards = local_cards() if self._cards is None else self._cards
        card = card_for(self._wanted, cards)
        if self._wanted.measures and (card is None or card.device is None):
            self._interpret(describe_cards(cards))
        if card is None or card.device is None:
            self._tracers = self._judges = await self._several("both", self.device)
            self._opening = asyncio.ensure_future(asyncio.sleep(0))
        else:
            judge = LocalExecutor("measure", device=card.device, card=card.number, command=self._command)
            await self._resources.enter_async_context(judge)
            self._tracers = await self._several("trace", None)
            self._opening = asyncio.ensure_future(self._open(judge, card.device))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the executors."""
        self._opening.cancel()
        await self._resources.aclose()

    async def judging(self) -> Device:
        """Wait until it is known which device judges, and return that."""
        await self._opening
        return self.device

    async def trace(self, job: TraceJob) -> TraceReport:
        """Trace a module.

        Raises:
            ServiceError: If the executor failed.
        """
        return await self._tracers.run(job, TraceReport)

    async def measure(self, job: MeasureJob) -> Report:
        """Judge plans.

        Raises:
            ServiceError: If the executor failed.
        """
        await self._opening
        return await self._judges.run(job, Report)

    def note(self, found_on: Device) -> str:
        """Return a sentence about the device that judged elites of another one; empty if it is theirs."""
        if self.device == found_on:
            return ""
        if self.device.measures:
            return f"the functions were judged and timed on a card of the class {self.device.name}, not {found_on.name}"
        return (
            f"no card of the class {found_on.name} judged the functions: the interpreter did, at small shapes, and "
            f"their times are predictions ({self._reason})"
        )

    async def _open(self, judge: LocalExecutor, device: Device) -> None:
        """Wait until the card is open; the interpreter judges if it cannot be opened."""
        try:
            await judge.ready()
        except Unavailable as error:
            self._interpret(str(error))
            self._judges = await self._several("both", self.device)
            return
        self._judges, self.device = _Pool([judge]), device

    def _interpret(self, reason: str) -> None:
        self.device, self._reason = Device(kind="model", subject=self._wanted.target), reason

    async def _several(self, kind: str, device: Device | None) -> _Pool:
        count = max(1, min(MOST_TRACERS, len(os.sched_getaffinity(0)) // CORES_PER_TRACER))
        executors = [LocalExecutor(kind, device=device, command=self._command) for _ in range(count)]
        return _Pool([await self._resources.enter_async_context(executor) for executor in executors])


def card_for(device: Device, cards: Sequence[LocalCard]) -> LocalCard | None:
    """Return the card that judges for a hardware class: one of the class, else one that runs the same machine code."""
    same = [card for card in cards if card.device is not None and card.device.target == device.target]
    return next((card for card in same if card.device == device), same[0] if same else None)
