"""The crew of a card: a runner with a warm spare, and a checker. They are asked one at a time, when it is their turn.

A candidate may cost its runner: a fault, an endless kernel. The spare then takes over at once, and another spare is
started behind it. Whatever else goes wrong with a child is a failure of ours.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Self, TypeAlias

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
from workers.device_kernels import compile_support
from workers.devices.ending import JudgementEnded, timed
from workers.errors import Transient
from workers.gpu_lock import FOLDER, GpuLock
from workers.oracle import Oracle, compile_oracle
from workers.oracle import open_card as open_to_look
from workers.oracle import serve as serve_checker
from workers.protocol import CardShare, Outcome, Stage
from workers.runner import open_card
from workers.runner import serve as serve_runner
from workers.runner.arena import ALIGNMENT
from workers.shared_process import SharedConnection
from workers.targets import Target

ARENA_SHARE, LARGEST_SHARE = 6, 2
"""The arena is this part of a seat's memory, and if a plan needs more at most the second: a checker in float64, and
baselines, fit beside it."""
OPEN_S = 120.0
"""Seconds for a child to open the card; measured 0.5 s on an H200, minutes on a host that has just started."""
LOOK_S = 300.0
"""Seconds for one look of the checker. Evaluating the largest reference in float64 takes a few, and a look asks for as
many as a round has contents."""
NO_MEMORY = ("out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED")
"""How torch, the driver and libraries say that the card has too little memory."""
JOBS_A_RUNNER = 2000
"""Jobs after which a runner gives way to its spare, so that nothing that a context remembers lasts for longer
(evaluation protocol 5.3)."""
Serve: TypeAlias = Callable[[ChildChannel], None]
"""What a child does: greets, then answers orders until the other end hangs up."""


class CardFailed(Transient):
    """The card or one of the processes that use it failed; another try may succeed."""


class CardMemoryShort(CardFailed):
    """The card has too little memory for what was asked, beside what others hold there."""


class CardProcesses:
    """The processes that use one card.

    Attributes:
        opened: What the runner at work said of the card.
        memory_bytes: This crew's part of the card's memory.
        gpu_lock: On the card, with whoever else uses it.
        spent_s: Seconds that were waited for turns and answers, by kind of order.
    """

    def __init__(
        self, run: Serve, start_oracle: Callable[[], ChildConnection], memory_bytes: int, sharers: int = 1
    ) -> None:
        """Start a runner, a spare and a checker; `at` does so on a card.

        Args:
            run: What a runner does.
            start_oracle: Starts a checker, or calls one that others have started.
            memory_bytes: Of a card of this kind, or what there is if that is less.
            sharers: How many crews share the card.

        Raises:
            Transient: If the card cannot be opened, or a checker cannot be called.
        """
        self.spent_s: dict[str, float] = {}
        self._sharers = sharers
        self._jobs = 0
        self._hire_runner, self._start_oracle = functools.partial(ForkedChild, run), start_oracle
        # The checker first: to call one may fail, and nobody else is there to be ended then.
        self._oracle, self._runner, self._spare = self._start_oracle(), self._hire_runner(), self._hire_runner()
        with ExitStack() as stack:
            stack.callback(self._end_children)
            _greeting(self._oracle)
            self.opened = _greeting(self._runner)
            self.memory_bytes = min(memory_bytes, self.opened.memory_bytes) // sharers
            self.gpu_lock = GpuLock(self.opened.address)
            stack.callback(self.gpu_lock.close)
            self._claim(self._usual_bytes)
            stack.pop_all()

    @classmethod
    def at(cls, seat: CardShare, target: Target, checks: Mapping[str, Check] = CHECKS) -> Self:
        """A crew at a card.

        Args:
            seat: Which card, and how many crews share it.
            target: What it runs.
            checks: What the checker holds runs against.

        Raises:
            Transient: If the card cannot be opened, or a checker cannot be called.
        """
        kernels = compile_support(target.name)
        begin = functools.partial(open_card, seat.card, kernels)
        run = functools.partial(serve_runner, begin=begin)
        kernels = kernels | compile_oracle(target.name)
        oracle = Oracle(functools.partial(open_to_look, seat.card, kernels), seat.sharers, checks)

        def start_oracle() -> ChildConnection:
            if seat.sharers > 1:
                return SharedConnection(_folder_of(seat, checks), oracle.receive)
            return ForkedChild(functools.partial(serve_checker, oracle=oracle))

        return cls(run, start_oracle, target.memory_bytes, seat.sharers)

    @property
    def arena_bytes(self) -> int:
        """Size of the runner's arena."""
        return self.opened.arena_bytes

    def provide(self, needed_bytes: int) -> None:
        """Have a runner for a job, and an arena that is large enough, by another runner if need be.

        The arena is as large as usual where that will do.

        Args:
            needed_bytes: Of all that lies in the arena at a time.

        Raises:
            Ended: If it is more than this card has for an arena.
            CardFailed: If the card or a process that uses it failed; `CardMemoryShort` if others hold too much of it.
        """
        largest = self.memory_bytes // LARGEST_SHARE
        if needed_bytes > largest:
            reason = f"two runs of it take {needed_bytes / 1e9:.1f} GB, and {largest / 1e9:.1f} is the most here"
            raise JudgementEnded(Stage.CHECK, Outcome.PLAN_REJECTED, reason)
        if self.arena_bytes < needed_bytes:
            self.make_room()
        fits = self.arena_bytes >= needed_bytes and not needed_bytes <= self._usual_bytes < self.arena_bytes
        if not fits or self._jobs >= JOBS_A_RUNNER:
            with self.gpu_lock.shared():
                self._runner.kill()
            self._replace_runner(max(needed_bytes, self._usual_bytes))
        self._jobs += 1

    def replay(
        self, order: Order, timeout_s: float, stage: Stage, *, exclusive: bool = False
    ) -> CommandDone | TimedRound:
        """Have the runner carry out an order that may start a candidate's kernels.

        Args:
            order: What to do.
            timeout_s: Seconds of the card after which the candidate counts as hanging.
            stage: Where the candidate is.
            exclusive: Whether nobody else may use the card meanwhile; so it is in any case while a round is timed.

        Raises:
            Ended: If the candidate cost us the runner, or does not fit the card.
            CardFailed: If the runner failed by itself.
        """
        exclusive = exclusive or isinstance(order, TimeRound)
        patience_s = timeout_s if exclusive else timeout_s * self._sharers
        try:
            with timed(self.spent_s, order.order), self.gpu_lock.exclusive() if exclusive else self.gpu_lock.shared():
                reply = self._asked(order, patience_s)
        except ChildSilent:
            self._replace_runner()
            reason = f"it does not end within {timeout_s:g} s on the card: an endless loop, or a deadlock"
            raise JudgementEnded(stage, Outcome.HANG, reason) from None
        except ChildDied as error:
            self._replace_runner()
            raise CardFailed(f"the runner died: {error}") from error
        return self._understood(reply, stage)

    def look(self, order: Order) -> ExaminedRuns:
        """Have the checker look.

        Raises:
            CardFailed: If it failed; `CardMemoryShort` if the card's memory did not suffice.
        """
        try:
            return self._seen(order)
        except CardFailed:
            self._replace_oracle()
            raise

    def make_room(self) -> None:
        """Have the checker let go of all that it can work out again: somebody else needs the card's memory.

        Raises:
            CardFailed: If it failed.
        """
        self.look(DropCache())

    def close(self) -> None:
        """End all of them. Idempotent."""
        self._end_children()
        self.gpu_lock.close()

    def _seen(self, order: Order) -> ExaminedRuns:
        """What the checker answers.

        Raises:
            CardFailed: If it is lost, or says something else.
        """
        try:
            with timed(self.spent_s, order.order), self.gpu_lock.shared():
                reply = self._oracle.ask(order, LOOK_S)
        except (ChildDied, ChildSilent) as error:
            raise CardFailed(f"the checker is lost: {error}") from error
        if not isinstance(reply, ExaminedRuns):
            raise _failure("the checker failed", reply)
        return reply

    def _asked(self, order: Order, patience_s: float) -> Reply:
        """What the runner answers; one that is lost is ended before anybody else has a turn beside its kernels."""
        try:
            reply = self._runner.ask(order, patience_s)
        except (ChildDied, ChildSilent):
            self._runner.kill()
            raise
        if not isinstance(reply, CommandDone | TimedRound | CommandRefused):
            self._runner.kill()
        return reply

    def _understood(self, reply: Reply, stage: Stage) -> CommandDone | TimedRound:
        if isinstance(reply, CommandDone | TimedRound):
            return reply
        if isinstance(reply, CommandRefused):
            raise JudgementEnded(stage, Outcome.PLAN_REJECTED, reply.reason)
        self._replace_runner()
        if isinstance(reply, DriverFault):
            raise JudgementEnded(stage, Outcome.DEVICE_FAULT, _explained(reply.error))
        raise _failure("the runner failed", reply)

    @property
    def _usual_bytes(self) -> int:
        """A multiple of what arenas are multiples of, so that one that was claimed is known as usual."""
        return self.memory_bytes // ARENA_SHARE // ALIGNMENT * ALIGNMENT

    def _replace_runner(self, arena_bytes: int | None = None) -> None:
        """Have the spare take over for one that was ended, with as large an arena if nothing else is said."""
        claimed = arena_bytes or self.arena_bytes or self._usual_bytes
        self.opened = self.opened.model_copy(update={"handle": "", "arena_bytes": 0})
        self.look(self._attention)
        self._runner, self._spare = self._spare, self._hire_runner()
        self._jobs = 0
        self.opened = _greeting(self._runner)
        self._claim(claimed)

    def _claim(self, arena_bytes: int) -> None:
        """Have a new runner take an arena, and the checker look into it.

        Raises:
            CardFailed: If it cannot.
        """
        try:
            with self.gpu_lock.shared():
                reply = self._runner.ask(ClaimArena(arena_bytes=arena_bytes), OPEN_S)
        except (ChildDied, ChildSilent) as error:
            raise CardFailed(f"a runner is lost: {error}") from error
        if not isinstance(reply, ChildReady):
            raise _failure(f"there is no room for an arena of {arena_bytes} bytes", reply)
        self.opened = reply
        self.look(self._attention)

    def _replace_oracle(self) -> None:
        self._oracle.kill()
        self._oracle = self._start_oracle()
        _greeting(self._oracle)
        self._seen(self._attention)

    def _end_children(self) -> None:
        for child in (self._runner, self._spare, self._oracle):
            child.close()

    @property
    def _attention(self) -> AttachArena:
        """To look into the arena of the runner at work, if it has one."""
        return AttachArena(handle=self.opened.handle, arena_bytes=self.opened.arena_bytes)


def _folder_of(seat: CardShare, checks: Mapping[str, Check]) -> Path:
    """Of the checker that all benches of this user share at a card: equal for those alone that run the same code."""
    visible = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
    told = f"{seat} {visible} {[*checks]} {version('kernelreef')} {__file__} {sys.executable} {os.getuid()}"
    return FOLDER / f"kernelreef-checker-{sha256(told.encode()).hexdigest()[:16]}"


def _greeting(child: ChildConnection) -> ChildReady:
    """What a child says first.

    Raises:
        CardFailed: If it could not open the card.
    """
    try:
        reply = child.hear(OPEN_S)
    except (ChildDied, ChildSilent) as error:
        raise CardFailed(f"a process could not open the card: {error}") from error
    if not isinstance(reply, ChildReady):
        raise CardFailed(f"a process could not open the card: {_said(reply)}")
    return reply


def _failure(what: str, reply: Reply) -> CardFailed:
    """The failure that an answer of a child's is."""
    said = _said(reply)
    lacking = isinstance(reply, CommandRefused) or any(words in said for words in NO_MEMORY)
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
