"""The processes of a card: a runner with a warm spare, and an oracle. The GPU lock orders their commands.

A candidate may cost its runner: a fault, an endless kernel. The spare then takes over at once, and another spare is
started. Any other failure of a child is an internal one.

An executor holds the card's memory lock while it has an arena. If memory is short beside others, it gives up its own,
waits until no other process has any, and does the work again. Only work that is short even then is refused.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

import structlog

from workers.checks import CHECKS, Check
from workers.child_process import ChildChannel, ChildConnection, ChildDied, ChildSilent, ForkedChild
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    ClaimArena,
    CommandDone,
    CommandRefused,
    DriverFault,
    DropCache,
    ExaminedRuns,
    Order,
    Reply,
    TimedRound,
    TimeRound,
)
from workers.device_kernels import Spread, compile_support
from workers.devices.ending import JudgementEnded, timed
from workers.driver_tool import used_bytes
from workers.errors import JobWaits, Transient, lacks_memory
from workers.gpu_lock import FOLDER, LARGE, GpuLock, MemoryLock, SoleUse
from workers.oracle import Oracle, compile_oracle
from workers.oracle import open_card as open_to_look
from workers.protocol import CardShare, CardSheet, Outcome, Stage
from workers.runner import open_card
from workers.runner import serve as serve_runner
from workers.runner.arena import ALIGNMENT
from workers.shared_process import SharedConnection
from workers.targets import Target

ARENA_SHARE, LARGEST_SHARE = 6, 2
"""Divisors of memory: a share's for the usual size of the arena, and the card's for its maximum if a plan needs more.
An oracle in float64, and baselines, fit beside it."""
EMPTY_SHARE = 0.15
"""Maximum share of the card's memory that is in use on an empty card: contexts of 16 processes take 8 of 80 GB."""
OPEN_S = 120.0
"""Seconds for a child to open the card; measured 0.5 s on an H200, minutes on a host that has just started."""
LOOK_S = 300.0
"""Seconds for one look of the oracle. Evaluating the largest reference in float64 takes a few, and a look needs one
evaluation per content of a round."""
JOBS_PER_RUNNER = 2000
"""Jobs after which a runner is replaced by its spare, so that no state of a context lasts longer (evaluation protocol
5.3)."""
Serve: TypeAlias = Callable[[ChildChannel], None]
"""Main function of a child: greets, then answers commands until the other end hangs up."""
Result = TypeVar("Result")

log = structlog.get_logger(__name__)


class CardFailed(Transient):
    """The card or one of the processes that use it failed; another try may succeed."""


class CardMemoryShort(CardFailed, JobWaits):
    """The card has too little memory for the command, beside other users' memory."""


class _Children:
    """The processes, and the locks of their card. An arena is claimed by `CardProcesses.provide`.

    Attributes:
        opened: Properties of the card, from the present runner.
        sheet: Facts of the card, from the first runner.
        memory_bytes: Memory of the card, for one job alone.
        gpu_lock: Lock of the card, shared with all its users.
        spent_s: Seconds of waiting for the lock and for answers, by kind of command.
    """

    def __init__(
        self, run: Serve, start_oracle: Callable[[], ChildConnection], memory_bytes: int | None = None, sharers: int = 1
    ) -> None:
        """Start a runner, a spare and an oracle; `at` does so on a card.

        Args:
            run: Main function of a runner.
            start_oracle: Starts an oracle, or connects to a shared one.
            memory_bytes: Maximum memory of the card to share; all of it if None.
            sharers: Number of executors that share the card.

        Raises:
            Transient: If the card cannot be opened, or no oracle can be reached.
        """
        self.spent_s: dict[str, float] = {}
        self._sharers = sharers
        self._jobs = 0
        self._demanding: set[str] = set()
        self._start_runner, self._start_oracle = functools.partial(ForkedChild, run), start_oracle
        # The oracle first: connecting may fail, and then there is no other child to end.
        self._oracle, self._runner, self._spare = self._start_oracle(), self._start_runner(), self._start_runner()
        with ExitStack() as stack:
            stack.callback(self._end_children)
            _greeting(self._oracle)
            self.opened = _greeting(self._runner)
            self.sheet = _sheet(self.opened)
            self.memory_bytes = min(memory_bytes or self.sheet.memory_bytes, self.sheet.memory_bytes)
            self._share_bytes = self.memory_bytes // sharers
            self.gpu_lock = stack.enter_context(closing(GpuLock(self.opened.address)))
            self._memory = stack.enter_context(closing(MemoryLock(self.opened.address)))
            self._large = stack.enter_context(closing(SoleUse(self.opened.address, LARGE)))
            stack.pop_all()

    @property
    def arena_bytes(self) -> int:
        """Size of the runner's arena; zero if it has none."""
        return self.opened.arena_bytes

    def replay(
        self, order: Order, timeout_s: float, stage: Stage, *, exclusive: bool = False
    ) -> CommandDone | TimedRound:
        """Send the runner a command that may start a candidate's kernels.

        Args:
            order: The command.
            timeout_s: Seconds on the card after which the candidate counts as hanging.
            stage: Stage of the candidate.
            exclusive: True if no other process may use the card meanwhile; always true while a round is timed.

        Raises:
            JudgementEnded: If the candidate cost the runner, or does not fit the card.
            CardFailed: If the runner failed by itself.
        """
        exclusive = exclusive or isinstance(order, TimeRound)
        limit_s = timeout_s if exclusive else timeout_s * self._sharers
        try:
            with timed(self.spent_s, order.order), self.gpu_lock.exclusive() if exclusive else self.gpu_lock.shared():
                reply = self._ask_runner(order, limit_s)
        except ChildSilent:
            self._replace_lost()
            reason = f"it does not end within {timeout_s:g} s on the card: an endless loop, or a deadlock"
            raise JudgementEnded(stage, Outcome.HANG, reason) from None
        except ChildDied as error:
            self._replace_lost()
            raise CardFailed(f"the runner died: {error}") from error
        return self._check_reply(reply, stage)

    def look(self, order: Order) -> ExaminedRuns:
        """Send the oracle a command.

        Raises:
            CardFailed: If it failed; `CardMemoryShort` if the card has too little memory.
        """
        try:
            return self._ask_oracle(order)
        except CardFailed:
            self._replace_oracle()
            raise

    def make_room(self) -> None:
        """Have the oracle drop everything that it can compute again: another process needs the card's memory.

        Raises:
            CardFailed: If it failed.
        """
        self.look(DropCache())

    def close(self) -> None:
        """End all processes. Idempotent."""
        self._end_children()
        for lock in (self.gpu_lock, self._memory, self._large):
            lock.close()

    def _ask_oracle(self, order: Order) -> ExaminedRuns:
        """Return the oracle's answer."""
        try:
            with timed(self.spent_s, order.order), self.gpu_lock.shared():
                reply = self._oracle.ask(order, LOOK_S)
        except (ChildDied, ChildSilent) as error:
            raise CardFailed(f"the oracle is lost: {error}") from error
        if isinstance(reply, DriverFault):
            self._replace_oracle()
            return ExaminedRuns(outcome=Outcome.TRACE_CRASHED, reason=reply.error)
        if not isinstance(reply, ExaminedRuns):
            raise _failure("the oracle failed", reply)
        return reply

    def _ask_runner(self, order: Order, limit_s: float) -> Reply:
        """Return the runner's answer; end a lost one before another process gets the card beside its kernels."""
        try:
            reply = self._runner.ask(order, limit_s)
        except (ChildDied, ChildSilent):
            self._runner.kill()
            raise
        if not isinstance(reply, CommandDone | TimedRound | CommandRefused):
            self._runner.kill()
        return reply

    def _check_reply(self, reply: Reply, stage: Stage) -> CommandDone | TimedRound:
        if isinstance(reply, CommandDone | TimedRound):
            return reply
        if isinstance(reply, CommandRefused):
            raise JudgementEnded(stage, Outcome.PLAN_REJECTED, reply.reason)
        self._replace_lost()
        if isinstance(reply, DriverFault):
            raise JudgementEnded(stage, Outcome.DEVICE_FAULT, _explained(reply.error))
        raise _failure("the runner failed", reply)

    def _end_runner(self) -> None:
        """End a runner with an arena, and have its spare take over without one."""
        if self.arena_bytes:
            with self.gpu_lock.shared():
                self._runner.kill()
            self._replace_runner()

    def _replace_lost(self) -> None:
        """Replace a runner that a candidate cost by one with as large an arena, if the card still has room for it."""
        arena_bytes = self.arena_bytes
        self._replace_runner()
        with suppress(CardMemoryShort):  # The verdict stands; the next job waits for memory.
            self._claim(arena_bytes)

    def _replace_runner(self) -> None:
        """Have the spare take over, without an arena, for a runner that was ended."""
        self.opened = self.opened.model_copy(update={"handle": "", "arena_bytes": 0})
        self.look(self._attach_arena)
        self._runner, self._spare = self._spare, self._start_runner()
        self._jobs = 0
        self.opened = _greeting(self._runner)

    def _claim(self, arena_bytes: int) -> None:
        """Have a new runner allocate an arena, and the oracle attach it."""
        self._memory.share()
        try:
            with self.gpu_lock.shared():
                reply = self._runner.ask(ClaimArena(arena_bytes=arena_bytes), OPEN_S)
        except (ChildDied, ChildSilent) as error:
            raise CardFailed(f"a runner is lost: {error}") from error
        if not isinstance(reply, ChildReady):
            self._runner.kill()
            self._replace_runner()
            raise _failure(f"the card has no room for an arena of {arena_bytes} bytes", reply)
        self.opened = reply
        self.look(self._attach_arena)

    def _replace_oracle(self) -> None:
        self._oracle.kill()
        self._oracle = self._start_oracle()
        _greeting(self._oracle)
        self._ask_oracle(self._attach_arena)

    def _end_children(self) -> None:
        for child in (self._runner, self._spare, self._oracle):
            child.close()

    @property
    def _attach_arena(self) -> AttachArena:
        """The command that attaches the present runner's arena, if it has one."""
        opened = self.opened
        return AttachArena(handle=opened.handle, arena_bytes=opened.arena_bytes, alone=self._memory.is_alone)


class CardProcesses(_Children):
    """The processes that use one card, and its memory."""

    @classmethod
    def at(cls, seat: CardShare, target: Target, checks: Mapping[str, Check] = CHECKS, spread: Spread = map) -> Self:
        """Start the processes of a card for one of its sharers. `spread` compiles their kernels.

        Raises:
            Transient: If the card cannot be opened, or no oracle can be reached.
        """
        kernels = compile_support(target.name, spread)
        begin = functools.partial(open_card, seat.card, kernels)
        run = functools.partial(serve_runner, begin=begin)
        kernels = kernels | compile_oracle(target.name, spread)
        oracle = Oracle(functools.partial(open_to_look, seat.card, kernels), checks)
        start_oracle = functools.partial(SharedConnection, _folder_of(seat.card, checks), oracle.receive)
        return cls(run, start_oracle, sharers=seat.sharers)

    def with_memory(self, whose: str, work: Callable[[], Result]) -> Result:
        """Do work on the card; if memory is short beside others, do it again with the card alone.

        Args:
            whose: The operator's digest. Once its work was short, its later work begins with the card alone.
            work: The work.

        Raises:
            JudgementEnded: If the work ends so, or an empty card has too little memory for it.
            CardMemoryShort: If programs that do not take part in the lock hold too much of it.
        """
        if whose not in self._demanding:
            try:
                return work()
            except CardMemoryShort as error:
                log.warning("the card's memory is short; waiting until no other process has any", reason=str(error))
                self._demanding.add(whose)
        self.take_card()
        try:
            return work()
        except CardMemoryShort as error:
            self._end_runner()
            self.make_room()
            used = used_bytes(self.opened.address)
            self.release_memory()
            if used is not None and used > EMPTY_SHARE * self.sheet.memory_bytes:
                raise CardMemoryShort(f"other programs hold {used / 1e9:.1f} GB of the card: {error}") from error
            reason = f"it does not fit a card of {self.memory_bytes / 1e9:.1f} GB that is empty but for it: {error}"
            raise JudgementEnded(Stage.CHECK, Outcome.PLAN_REJECTED, reason) from error

    def provide(self, needed_bytes: int) -> None:
        """Provide a runner, and an arena of at least so many bytes, by another runner if need be.

        The arena has its usual size if that is enough. One that takes more than half of a share is for one sharer at a
        time, and until `settle` only. One that does not fit beside the usual arenas of the others takes the whole card.

        Raises:
            JudgementEnded: If it is more than this card has for an arena.
            CardFailed: If the card or a process that uses it failed; `CardMemoryShort` if others hold too much of it.
        """
        largest = self.memory_bytes // LARGEST_SHARE
        if needed_bytes > largest:
            reason = f"two runs of it take {needed_bytes / 1e9:.1f} GB; the maximum here is {largest / 1e9:.1f} GB"
            raise JudgementEnded(Stage.CHECK, Outcome.PLAN_REJECTED, reason)
        if needed_bytes > (self.memory_bytes - (self._sharers - 1) * self._usual_bytes) // LARGEST_SHARE:
            self.take_card()
        elif needed_bytes > self._share_bytes // LARGEST_SHARE:
            self._large.take()
        if max(self.arena_bytes, self._usual_bytes) < needed_bytes:
            self.make_room()
        fits = self.arena_bytes >= needed_bytes and not needed_bytes <= self._usual_bytes < self.arena_bytes
        if not fits or self._jobs >= JOBS_PER_RUNNER:
            self._end_runner()
            self._claim(max(needed_bytes, self._usual_bytes))
        self._jobs += 1

    def take_card(self) -> None:
        """Wait until no other process has memory on the card; then this one has it alone until others want some.

        Raises:
            CardFailed: If the card or a process that uses it failed.
        """
        if not self._memory.is_alone:
            self.release_memory()
            self._memory.take()

    def settle(self) -> None:
        """End a job: return the memory that others may wait for.

        Raises:
            CardFailed: If the card or a process that uses it failed.
        """
        if self._sharers > 1 and self.arena_bytes > self._share_bytes // LARGEST_SHARE:
            self._end_runner()
        self._large.release()
        self.rest()

    def rest(self) -> None:
        """Return the memory of the card if others wait for it. Call it between jobs, and often.

        Raises:
            CardFailed: If the card or a process that uses it failed.
        """
        if self._memory.is_wanted:
            self.release_memory()

    def release_memory(self) -> None:
        """Release the arena and the oracle's answers: others may take the card's memory until the next `provide`.

        Raises:
            CardFailed: If the card or a process that uses it failed.
        """
        if self.arena_bytes:
            self._end_runner()
            self.make_room()
        self._large.release()
        self._memory.release()

    @property
    def _usual_bytes(self) -> int:
        """Usual size of the arena; a multiple of the alignment, so that a claimed arena compares equal to it."""
        return self._share_bytes // ARENA_SHARE // ALIGNMENT * ALIGNMENT


def _folder_of(card: int, checks: Mapping[str, Check]) -> Path:
    """Return the folder of the oracle that all executors of a user share at a card: the same only for the same code.

    With an oracle each, a search and three exports had no memory left: each took its answers for all there were.
    """
    visible = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
    identity = f"{card} {visible} {[*checks]} {version('kernelreef')} {__file__} {sys.executable} {os.getuid()}"
    return FOLDER / f"kernelreef-oracle-{sha256(identity.encode()).hexdigest()[:16]}"


def _greeting(child: ChildConnection) -> ChildReady:
    """Return a child's first answer."""
    try:
        reply = child.hear(OPEN_S)
    except (ChildDied, ChildSilent) as error:
        raise CardFailed(f"a process could not open the card: {error}") from error
    if not isinstance(reply, ChildReady):
        raise CardFailed(f"a process could not open the card: {_said(reply)}")
    return reply


def _sheet(greeting: ChildReady) -> CardSheet:
    """Return the card's facts out of a runner's greeting."""
    if greeting.sheet is None:
        raise CardFailed("a runner said nothing about its card")
    return greeting.sheet


def _failure(what: str, reply: Reply) -> CardFailed:
    """Return the failure for a child's answer."""
    said = _said(reply)
    lacking = isinstance(reply, CommandRefused) or lacks_memory(said)
    return (CardMemoryShort if lacking else CardFailed)(f"{what}: {said}")


def _said(reply: Reply) -> str:
    match reply:
        case ChildBroken() | DriverFault():
            return reply.error
        case CommandRefused():
            return reply.reason
    return f"it answered '{reply.answer}'"


def _explained(error: str) -> str:
    if "ILLEGAL_ADDRESS" in error or "MISALIGNED" in error:
        return f"the card reported {error}: it reads or writes memory that is not its own; check masks and offsets"
    return f"the card reported {error}"
