"""A runner and a checker at one arena on the host, without processes of their own and without a card."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from tests.service import records
from tests.workers.oracle.paper import PaperCard
from tests.workers.runner.plans import OPERATOR, arena, bundle_of, kernel, machine_code, supported
from workers import driver
from workers.assembler import MachineCode
from workers.assembler.machine import InstructionMix
from workers.commands import ExaminedRuns, Order, PairSide, Reply
from workers.devices.trial import VariantTrial
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.examiner import Examiner
from workers.protocol import Stage
from workers.runner.session import OpenedCard, RunnerSession

MIX = InstructionMix({}, 0, "plain", "none", loops=False)


@dataclass
class Desk:
    """Has the shape of a crew."""

    session: RunnerSession
    examiner: Examiner
    memory: torch.Tensor
    exclusive: set[str] = field(default_factory=set)
    """Kinds of orders that nobody else was to be there for."""

    @property
    def arena_bytes(self) -> int:
        return self.memory.numel()

    def replay(self, order: Order, timeout_s: float, stage: Stage, *, exclusive: bool = False) -> Reply:
        self.exclusive |= {order.order} if exclusive else set()
        return self.session.obey(order)

    def look(self, order: Order) -> ExaminedRuns:
        return self.examiner.answer(order)

    def with_memory(self, whose: str, work: Callable[[], object]) -> object:
        return work()


@contextmanager
def opened_desk() -> Iterator[Desk]:
    """A runner with the driver on paper, and a checker that reads its arena."""
    with supported() as (_, support):
        memory = arena()
        session = OpenedCard(driver.open_card(0), support, lambda _: memory).claim(memory.bytes)
        card = PaperCard()
        card.arena = memory.tensor(0, memory.bytes)
        yield Desk(session, Examiner(card, AnswerCache(0)), card.arena)


def trial_at(processes: Desk, mix: InstructionMix = MIX, *, fresh: bool = False) -> VariantTrial:
    """A plan of one launch, that races itself."""
    bundle = bundle_of(kernel())
    codes = {digest: MachineCode(each, (), 8, 0, 0, mix) for digest, each in machine_code(bundle).items()}
    graph = records.graph(bundle.plans[0].shape)
    return VariantTrial(processes, OPERATOR, (graph,), dict.fromkeys(PairSide, bundle), codes, fresh=fresh)
