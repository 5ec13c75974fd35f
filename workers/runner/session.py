"""The runner's loop: carries out commands, and answers once more if a run has cost it the card."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType

import torch

from workers import driver
from workers.child_process import ChildChannel
from workers.commands import (
    ByteRange,
    ChildBroken,
    ChildReady,
    ClaimArena,
    CommandDone,
    CommandRefused,
    DriverFault,
    ExecuteRuns,
    LoadBundle,
    Order,
    PairSide,
    PoisonRanges,
    PrepareRound,
    Reply,
    Reset,
    TimeRound,
    TimingRound,
)
from workers.device_kernels import DeviceKernels, SupportKernel
from workers.errors import BadMessage
from workers.gpu_lock import GpuLock
from workers.runner.arena import Arena, free_idle
from workers.runner.filling import SlotFiller
from workers.runner.loaded_plans import LoadedPlan, LoadedPlans
from workers.runner.rounds import TimedRounds
from workers.runner.slots import CannotRun

LOAD_FLUSHES = 8
"""Writes of memory twice as large as the cache beside a run with concurrent load: a few hundred microseconds."""
IDLE_BYTES = 2**30
"""Maximum unused memory that torch may keep in a runner for the next inputs."""


class OpenedCard:
    """An open card without an arena: a spare runner takes no memory from those at work.

    `opened` is its first answer to the executor.
    """

    def __init__(
        self, card: driver.DriverCard, support: DeviceKernels, allocate: Callable[[int], Arena] = Arena.allocate
    ) -> None:
        self.opened = ChildReady(
            card=card.name,
            address=card.address,
            sheet=card.sheet,
            versions={**card.versions, "torch": torch.__version__, "card": card.name},
        )
        self._support = support
        self._allocate = allocate

    def claim(self, arena_bytes: int) -> "RunnerSession":
        """Allocate an arena, and open the card for replay.

        Raises:
            DriverError: If there is too little memory.
        """
        return RunnerSession(self.opened, self._support, self._allocate(arena_bytes))


class RunnerSession:
    """A card that is open for replay. `opened` tells the executor about the card and the arena."""

    def __init__(self, opened: ChildReady, support: DeviceKernels, arena: Arena) -> None:
        """Take over an arena, whose content is overwritten."""
        self._support = support
        self._arena = arena
        self._stream, self._beside = driver.make_stream(), driver.make_stream()
        self._bundles = LoadedPlans(arena)
        self._filler = SlotFiller(support, arena, self._stream)
        self._rounds = TimedRounds(support, self._filler, self._stream)
        self.opened = opened.model_copy(update={"handle": arena.handle.hex(), "arena_bytes": arena.bytes})
        self._reset()

    def obey(self, order: Order) -> Reply:
        """Carry out a command.

        Raises:
            BadMessage: If it is not for a runner, or makes no sense now.
            DriverError: If a run failed.
        """
        try:
            match order:
                case LoadBundle():
                    self._rounds.drop()
                    self._bundles.load(order)
                case ExecuteRuns():
                    self._execute(order)
                case PrepareRound():
                    self._prepare(order.round)
                case TimeRound():
                    time.sleep(order.rest_s)
                    return self._rounds.time()
                case Reset():
                    self._reset()
                case PoisonRanges():
                    self._overwrite(order.ranges)
                case _:
                    raise BadMessage(f"'{order.order}' is not a command for a runner")
        except CannotRun as error:
            return CommandRefused(reason=str(error))
        return CommandDone()

    def _execute(self, order: ExecuteRuns) -> None:
        cases = [(self._bundles.loaded_plan(order.side, case.plan), case) for case in order.cases]
        runs = [loaded_plan.loaded.bind(case.slot) for loaded_plan, case in cases]
        self._filler.fill(cases, order.zones)
        try:
            for (_, case), run in zip(cases, runs, strict=True):
                if case.concurrent_load:
                    self._start_load()
                run(self._stream)
        except driver.DriverError as error:
            if order.side is not PairSide.CANDIDATE or not _lacks_room(
                error, [loaded_plan for loaded_plan, _ in cases]
            ):
                raise
            driver.synchronise(self._stream)  # Earlier runs may still be under way.
            raise CannotRun(
                "the card has too little memory for the local memory of its threads; use smaller blocks"
            ) from error
        driver.synchronise(self._stream)
        driver.synchronise(self._beside)
        free_idle(self._arena.device, IDLE_BYTES)  # Other processes on the card may need it.

    def _start_load(self) -> None:
        """Start writes that go on beside the next run, after everything before it is done."""
        driver.synchronise(self._stream)
        for _ in range(LOAD_FLUSHES):
            self._support.flush(self._beside)

    def _prepare(self, order: TimingRound) -> None:
        self._rounds.prepare(
            order, {side: self._bundles.loaded_plan(side, index) for side, index in order.plans.items()}
        )

    def _reset(self) -> None:
        """Overwrite the whole arena: leftovers of a kernel outside its slots must not reach the next one."""
        self._rounds.drop()
        self._bundles.clear()
        self._overwrite([(0, self._arena.bytes)])

    def _overwrite(self, ranges: Sequence[ByteRange]) -> None:
        base = self._arena.pointer
        self._support.poison(self._stream, [(base + start, end - start) for start, end in ranges])
        driver.synchronise(self._stream)


class _LastWords:
    """Answers an early end of the session: with the card's fault after a candidate's run, or an internal failure."""

    def __init__(self, channel: ChildChannel) -> None:
        self._channel = channel

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        fault = fault_of(error)
        self._channel.answer(
            ChildBroken(error=f"{type(error).__name__}: {error}") if fault is None else DriverFault(error=fault)
        )
        return True


def open_card(card: int, kernels: Mapping[str, SupportKernel]) -> OpenedCard:
    """Open a card by its index, with kernels compiled for it, while no process times there.

    Raises:
        ToolMissing: If there is no such card.
        DriverError: If it cannot be used.
    """
    with closing(GpuLock(driver.address_of(card))) as gpu_lock, gpu_lock.shared():
        opened = driver.open_card(card)
        torch.cuda.set_device(card)
        return OpenedCard(opened, DeviceKernels(kernels))


def serve(channel: ChildChannel, begin: Callable[[], OpenedCard]) -> None:
    """Serve as a runner: open the card, greet, carry out commands until the executor hangs up or the card is lost."""
    torch.set_num_threads(1)  # The fork left the executor's threads behind.
    with _LastWords(channel):
        opening = begin()
        channel.answer(opening.opened)
        session: RunnerSession | None = None
        for order in channel.orders():
            if session is None:
                session = _claimed(opening, order)
                channel.answer(session.opened)
            else:
                channel.answer(session.obey(order))


def _claimed(opening: OpenedCard, order: Order) -> RunnerSession:
    if not isinstance(order, ClaimArena):
        raise BadMessage(f"'{order.order}' needs an arena; send 'claim' first")
    return opening.claim(order.arena_bytes)


def _lacks_room(error: driver.DriverError, loaded_plans: Sequence[LoadedPlan]) -> bool:
    """Return True if a launch failed because the card cannot set aside the local memory that its kernels use."""
    return error.name == driver.OUT_OF_MEMORY and any(loaded_plan.loaded.local_bytes for loaded_plan in loaded_plans)


def fault_of(error: Exception) -> str | None:
    """Return the driver's name of the fault behind an exception; None if no kernel's run is to blame."""
    if isinstance(error, driver.DriverError):
        return error.name if error.name in driver.FAULTS else None
    # Torch has its own messages; the driver knows the fault.
    return driver.find_fault() if isinstance(error, RuntimeError) else None
