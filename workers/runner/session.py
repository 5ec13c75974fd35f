"""The runner's loop: one order after the other, and last words when a run has cost it the card."""

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
from workers.runner.errors import CannotRun
from workers.runner.filling import SlotFiller
from workers.runner.loaded_plans import LoadedPlan, LoadedPlans
from workers.runner.rounds import TimedRounds

LOAD_READS = 8
"""Times that memory twice as large as the cache is read beside a run that has company: a few hundred microseconds."""
IDLE_BYTES = 2**30
"""How much memory torch may keep in a runner for the next inputs."""


class OpenedCard:
    """A card that is open, and on which there is no arena yet: a spare takes no room from those who work.

    Args:
        card: The card that is open in this thread.
        support: Kernels of ours on it.
        allocate: Takes so many bytes of the card's memory.

    Attributes:
        opened: What to greet the bench with.
    """

    def __init__(
        self, card: driver.DriverCard, support: DeviceKernels, allocate: Callable[[int], Arena] = Arena.allocate
    ) -> None:
        self.opened = ChildReady(
            card=card.name,
            address=card.address,
            memory_bytes=card.memory_bytes,
            versions={**card.versions, "torch": torch.__version__, "card": card.name},
        )
        self._support = support
        self._allocate = allocate

    def claim(self, arena_bytes: int) -> "RunnerSession":
        """Take an arena, and open the card for replay.

        Raises:
            DriverError: If there is not as much memory.
        """
        return RunnerSession(self.opened, self._support, self._allocate(arena_bytes))


class RunnerSession:
    """A card that is open for replay.

    Attributes:
        opened: What to say of it to the bench.
    """

    def __init__(self, opened: ChildReady, support: DeviceKernels, arena: Arena) -> None:
        """Take over an arena, whose content is overwritten.

        Args:
            opened: What was said of the card before there was an arena.
            support: Kernels of ours on it.
            arena: Memory of it.
        """
        self._support = support
        self._arena = arena
        self._stream, self._beside = driver.make_stream(), driver.make_stream()
        self._bundles = LoadedPlans(arena)
        self._filler = SlotFiller(support, arena, self._stream)
        self._rounds = TimedRounds(support, self._filler, self._stream)
        self.opened = opened.model_copy(update={"handle": arena.handle.hex(), "arena_bytes": arena.bytes})
        self._reset()

    def obey(self, order: Order) -> Reply:
        """Carry out an order.

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
                    return self._rounds.time()
                case Reset():
                    self._reset()
                case PoisonRanges():
                    self._overwrite(order.ranges)
                case _:
                    raise BadMessage(f"'{order.order}' is no order for a runner")
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
            driver.synchronise(self._stream)  # What was enqueued before may still run.
            raise CannotRun("the card has no room for the local memory of its threads; use smaller blocks") from error
        driver.synchronise(self._stream)
        driver.synchronise(self._beside)
        free_idle(self._arena.device, IDLE_BYTES)  # Others on the card may need it.

    def _start_load(self) -> None:
        """Begin with something that goes on beside the next run, which finds all that comes before it done."""
        driver.synchronise(self._stream)
        for _ in range(LOAD_READS):
            self._support.flush(self._beside)

    def _prepare(self, order: TimingRound) -> None:
        self._rounds.prepare(
            order, {side: self._bundles.loaded_plan(side, index) for side, index in order.plans.items()}
        )

    def _reset(self) -> None:
        """Overwrite the whole arena: what a kernel left outside of its slots must not be there for the next one."""
        self._rounds.drop()
        self._bundles.clear()
        self._overwrite([(0, self._arena.bytes)])

    def _overwrite(self, ranges: Sequence[ByteRange]) -> None:
        base = self._arena.pointer
        self._support.poison(self._stream, [(base + start, end - start) for start, end in ranges])
        driver.synchronise(self._stream)


class _LastWords:
    """Whatever ends the session early becomes an answer: the card's fault after a candidate's run, or ours."""

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
    """Open a card, while nobody times there.

    Args:
        card: Its index.
        kernels: Kernels of ours, compiled for it.

    Raises:
        ToolMissing: If there is no such card.
        DriverError: If it cannot be used.
    """
    with closing(GpuLock(driver.address_of(card))) as gpu_lock, gpu_lock.shared():
        opened = driver.open_card(card)
        torch.cuda.set_device(card)
        return OpenedCard(opened, DeviceKernels(kernels))


def serve(channel: ChildChannel, begin: Callable[[], OpenedCard]) -> None:
    """Be a runner: open the card, say so, obey orders until the bench hangs up or the card is lost.

    Args:
        channel: The line to the bench.
        begin: Opens the card; `open_card` with its arguments.
    """
    torch.set_num_threads(1)  # Threads of the bench did not come along.
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
        raise BadMessage(f"'{order.order}' comes before there is an arena")
    return opening.claim(order.arena_bytes)


def _lacks_room(error: driver.DriverError, loaded_plans: Sequence[LoadedPlan]) -> bool:
    """Whether a launch failed because the card cannot set aside the local memory that its kernels ask for."""
    return error.name == driver.OUT_OF_MEMORY and any(loaded_plan.loaded.local_bytes for loaded_plan in loaded_plans)


def fault_of(error: Exception) -> str | None:
    """The driver's name of the fault that an exception comes from, if a kernel's run is to blame for it."""
    if isinstance(error, driver.DriverError):
        return error.name if error.name in driver.FAULTS else None
    # Torch reports what it finds by its own words; the driver knows.
    return driver.find_fault() if isinstance(error, RuntimeError) else None
