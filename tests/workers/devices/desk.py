"""A runner and a checker at one arena on the host, without processes of their own and without a card."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from tests.service import records
from tests.workers.checker.paper import PaperCard
from tests.workers.runner.plans import OPERATOR, arena, bundle_of, kernel, machine_code, supported
from workers import driver
from workers.assembler import MachineCode
from workers.assembler.machine import Mix
from workers.checker.examiner import Examiner
from workers.checker.memory import Memory
from workers.devices.trial import Trial
from workers.orders import Examined, Order, Reply, Side
from workers.protocol import Stage
from workers.runner.session import Opening, Session

MIX = Mix({}, 0, "plain", "none", loops=False)


@dataclass
class Desk:
    """Has the shape of a crew."""

    session: Session
    examiner: Examiner
    memory: torch.Tensor
    alone: set[str] = field(default_factory=set)
    """Kinds of orders that nobody else was to be there for."""

    @property
    def arena_bytes(self) -> int:
        return self.memory.numel()

    def replay(self, order: Order, timeout_s: float, stage: Stage, *, alone: bool = False) -> Reply:
        self.alone |= {order.order} if alone else set()
        return self.session.obey(order)

    def look(self, order: Order) -> Examined:
        return self.examiner.answer(order)


@contextmanager
def opened_desk() -> Iterator[Desk]:
    """A runner with the driver on paper, and a checker that reads its arena."""
    with supported() as (_, support):
        memory = arena()
        session = Opening(driver.open_card(0), support, lambda _: memory).claim(memory.bytes)
        card = PaperCard()
        card.arena = memory.tensor(0, memory.bytes)
        yield Desk(session, Examiner(card, Memory(0)), card.arena)


def trial_at(crew: Desk, mix: Mix = MIX, *, fresh: bool = False) -> Trial:
    """A plan of one launch, that races itself."""
    bundle = bundle_of(kernel())
    codes = {digest: MachineCode(each, (), 8, 0, 0, mix) for digest, each in machine_code(bundle).items()}
    graph = records.graph(bundle.plans[0].shape)
    return Trial(crew, OPERATOR, (graph,), dict.fromkeys(Side, bundle), codes, fresh=fresh)
