"""The oracle as a process: it opens the card, then carries out the commands of all executors of the card."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from workers import driver
from workers.checks import CHECKS, Check
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    CommandRefused,
    DriverFault,
    ExaminedRuns,
    Order,
    Reply,
)
from workers.device_kernels import SupportKernel
from workers.errors import WorkerError, lacks_memory
from workers.gpu_lock import GpuLock
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.card import CudaOracleCard
from workers.oracle.examiner import Examiner
from workers.protocol import Outcome
from workers.reference import ReferenceFailed

MEMORY_SHARE = 0.55
"""Share of the card's memory that answers may take. Those of a timing of 16 pairs take 9 GB if every output is of 16
bits: a sample lasts 100 us at any shape. Five timings fit on 80 GB. With 0.45 they did not: an eighth of the answers,
computed again for every candidate, took two thirds of the time of all looks at rounds."""

ROOM_SHARE = 0.75
"""Share of the card's memory that answers and arenas may take together: runners that draw inputs, baselines and
intermediate results need the rest. If arenas take half of a card, a quarter of it is left for answers."""

ASSERTED = "device-side assert"
"""Words by which torch reports that one of its kernels found an index outside a tensor. The context is lost."""


@dataclass(frozen=True)
class OracleSession:
    """The oracle for one executor: its first answer, and the examiner of its runs."""

    greeting: ChildReady
    examiner: Examiner

    def answer(self, order: Order) -> Reply:
        """Carry out a command."""
        return respond(self.examiner, order)

    def leave(self) -> None:
        """Detach its arena."""
        respond(self.examiner, AttachArena(handle="", arena_bytes=0))


class Oracle:
    """A card that is opened for the first executor, and the answers that all executors share."""

    def __init__(self, begin: Callable[[], CudaOracleCard], checks: Mapping[str, Check] = CHECKS) -> None:
        """Keep the function that opens the card; nothing is opened yet."""
        self._begin = begin
        self._checks = checks

    def receive(self) -> OracleSession | ChildBroken:
        """Open a session for one more executor."""
        try:
            card, memory = self._opened
        except (WorkerError, RuntimeError) as error:
            return ChildBroken(error=f"the oracle cannot open the card: {error}")
        versions = {**card.opened.versions, "torch": torch.__version__, "card": card.opened.name}
        greeting = ChildReady(card=card.opened.name, versions=versions)
        return OracleSession(greeting, Examiner(card.without_arena(), memory, self._checks))

    @cached_property
    def _opened(self) -> tuple[CudaOracleCard, AnswerCache]:
        torch.set_num_threads(1)  # The fork left the executor's threads behind.
        demand_precision()
        card = self._begin()
        most, room = (int(share * card.memory_bytes) for share in (MEMORY_SHARE, ROOM_SHARE))
        return card, AnswerCache(most, room)


def open_card(card: int, kernels: Mapping[str, SupportKernel]) -> CudaOracleCard:
    """Open a card by its index, with compiled kernels, while no process times there.

    Raises:
        ToolMissing: If there is no such card.
        DriverError: If it cannot be used.
    """
    with closing(GpuLock(driver.address_of(card))) as gpu_lock, gpu_lock.shared():
        return CudaOracleCard(card, kernels)


def respond(examiner: Examiner, order: Order) -> Reply:
    """Carry out a command; if the card's memory is too small, again with fewer answers, at last with an empty cache."""
    reply = _try(examiner, order)
    for make_room in (examiner.give_way, examiner.drop_cache):
        if reply is None:
            make_room()
            reply = _try(examiner, order)
    if isinstance(reply, DriverFault):
        return reply  # Nothing runs on the card any more.
    if not (isinstance(reply, ExaminedRuns) and examiner.goes_on(reply)):
        examiner.tidy()
    if reply is None:
        beside = f"more than {examiner.peak_bytes() / 1e9:.1f} GB"
        return CommandRefused(
            reason=f"the card's memory does not suffice to carry out '{order.order}', which takes {beside}"
        )
    return reply


def demand_precision() -> None:
    """Set torch to compute the reference exactly: no TF32, no sums in halves, no algorithm chosen by time."""
    backends: Any = torch.backends
    backends.cuda.matmul.fp32_precision = "ieee"
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    backends.cudnn.conv.fp32_precision = "ieee"
    backends.cudnn.benchmark = False
    backends.cudnn.deterministic = True


def _try(examiner: Examiner, order: Order) -> ExaminedRuns | ChildBroken | DriverFault | None:
    """Return the answer; None if there is too little memory, after releasing everything that this attempt held.

    A reference that raises is no fault of the card. If it uses an index outside a tensor, the card stops instead: no
    other kernel here asserts, but nothing runs in this process any more.
    """
    try:
        return examiner.answer(order)
    except ReferenceFailed as failed:
        return ExaminedRuns(outcome=Outcome.TRACE_CRASHED, reason=str(failed))
    except (WorkerError, RuntimeError, ValueError) as error:
        if lacks_memory(str(error)):
            return None
        if ASSERTED in str(error):
            return DriverFault(error=str(ReferenceFailed("an operation used an index outside a tensor")))
        return ChildBroken(error=f"{type(error).__name__}: {error}")
