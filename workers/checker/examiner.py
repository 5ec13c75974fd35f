"""The examiner: carries out one order after the other and says what it saw."""

from collections.abc import Sequence

from workers.checker.base import Card, Run, Subject
from workers.checker.glance import Glance
from workers.checker.memory import Memory
from workers.checker.repetition import describe_difference
from workers.checker.sight import give_evidence, inputs_before, outputs
from workers.checker.zones import describe_damage
from workers.checks import CHECKS, Evidence, Ledger
from workers.errors import BadMessage, Transient
from workers.orders import (
    TIMED,
    Adopt,
    Attend,
    Compare,
    Content,
    Examine,
    Examined,
    ExamineRound,
    Order,
    Side,
)
from workers.protocol import Outcome


class PacerWrong(Transient):
    """The pacer's own results or inputs are not right after a round: no candidate can be timed beside it."""


class Examiner:
    """Judges runs in an arena against the operator that was adopted last.

    Args:
        card: Holds the arena.
        memory_bytes: How much of the card answers to timed content may take.
    """

    def __init__(self, card: Card, memory_bytes: int) -> None:
        self._card = card
        self._memory = Memory(memory_bytes)
        self._adopted: Subject | None = None
        self._ledger = Ledger(CHECKS)
        self._latest: Evidence | None = None

    def answer(self, order: Order) -> Examined:
        """Carry out an order.

        Raises:
            BadMessage: If the order is not for a checker, or makes no sense now.
            PacerWrong: If a round cannot be judged.
        """
        match order:
            case Attend():
                self._latest = None
                self._card.attend(order.handle, order.arena_bytes)
            case Adopt():
                self._latest = None
                self._adopted = Subject(order.operator, {graph.shape.key: graph for graph in order.graphs})
                self._ledger = Ledger(CHECKS)
            case Examine():
                return self._examine(Run(order.plan, order.slot, order.content))
            case Compare():
                return self._compare(order)
            case ExamineRound():
                return self._examine_round(order)
            case _:
                raise BadMessage(f"'{order.order}' is no order for a checker")
        return self._conclude()

    def forget(self) -> None:
        """Let go of all that can be worked out again."""
        self._latest = None
        self._memory.clear()
        self._card.free()

    @property
    def _subject(self) -> Subject:
        if self._adopted is None:
            raise BadMessage("there is no operator to judge by yet")
        return self._adopted

    def _examine(self, run: Run) -> Examined:
        self._latest = None
        damage = describe_damage(self._card, self._subject.operator, [run], run.content.seed)
        if damage is not None:
            return self._conclude(Outcome.OUT_OF_BOUNDS, damage)
        evidence = self._evidence(run)
        if self._ledger.examine(evidence) is None:
            self._latest = evidence
        return self._conclude()

    def _compare(self, order: Compare) -> Examined:
        if self._latest is None or self._latest.shape.key != order.plan.shape.key:
            raise BadMessage(f"no run at {order.plan.shape.key} was examined just now")
        content = Content(draw=self._latest.draw, seed="")
        first, second = (outputs(self._card, Run(order.plan, slot, content)) for slot in order.slots)
        difference = describe_difference(self._latest, first, second)
        self._latest = None
        return self._conclude() if difference is None else self._conclude(Outcome.NONDETERMINISTIC, difference)

    def _examine_round(self, order: ExamineRound) -> Examined:
        self._latest = None
        mine, its = (_timed_runs(order, side) for side in (Side.CANDIDATE, Side.PACER))
        damage = describe_damage(self._card, self._subject.operator, mine + its, order.round.seed)
        if damage is not None:
            return self._conclude(Outcome.OUT_OF_BOUNDS, damage)
        for index in self._suspects(mine + its):
            if index >= len(mine):
                self._judge_pacer(its[index - len(mine)])
            elif self._ledger.examine(self._evidence(mine[index])) is not None:
                break
        return self._conclude()

    def _suspects(self, runs: Sequence[Run]) -> list[int]:
        """Positions of runs that are not seen to be right, even if results may move as nudged inputs move them."""
        glance = Glance(self._card, self._subject, self._memory)
        suspects = glance.suspects(runs)
        if suspects:
            again = glance.suspects([runs[index] for index in suspects], widened=True)
            suspects = [suspects[index] for index in again]
        return suspects

    def _judge_pacer(self, run: Run) -> None:
        ledger = Ledger(CHECKS)
        if ledger.examine(self._evidence(run)) is not None and ledger.failure is not None:
            raise PacerWrong(f"the pacer's run is not right ({ledger.failure.outcome}): {ledger.failure.reason}")

    def _evidence(self, run: Run) -> Evidence:
        given = inputs_before(self._card, self._subject.operator, run)
        return give_evidence(self._card, self._subject, run, given)

    def _conclude(self, outcome: Outcome | None = None, reason: str = "") -> Examined:
        failure = self._ledger.failure
        if outcome is None and failure is not None:
            outcome, reason = failure.outcome, failure.reason
        return Examined(outcome=outcome, reason=reason, checks=self._ledger.results())


def _timed_runs(order: ExamineRound, side: Side) -> list[Run]:
    """A side's runs in a round, in the order in which they were timed."""
    timed = order.round
    return [
        Run(order.plans[side], timed.slots[side][slot], Content(draw=TIMED, seed=timed.seed, stream=stream))
        for sample in timed.samples
        if sample.side == side
        for slot, stream in zip(sample.slots, sample.streams, strict=True)
    ]
