"""The examiner: carries out commands and returns findings."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from workers.checks import CHECKS, Check, CheckEvidence, CheckResults
from workers.checks.base import FreshDraws
from workers.checks.bias import Bias
from workers.checks.error_ratio import ErrorRatio
from workers.checks.special_values import SpecialValues
from workers.commands import (
    AttachArena,
    DropCache,
    ExaminedRuns,
    ExamineIdle,
    ExamineMore,
    ExamineRound,
    ExamineRuns,
    OpenDoubt,
    Order,
    PairSide,
    SetOperator,
)
from workers.errors import BadMessage
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.base import OracleCard, OracleSubject, PlanRun
from workers.oracle.fast_check import ErrorMargin, FastCheck
from workers.oracle.isolation import describe_misdeed, run_of, uncalled_runs
from workers.oracle.looks import LOOK_S, ExaminedGroups, Look
from workers.oracle.red_zones import describe_damage
from workers.oracle.repetition import describe_difference
from workers.oracle.views import give_evidence, inputs_before, outputs
from workers.protocol import Outcome

IDLE_BYTES = 8 * 2**30
"""Maximum unused memory that is kept for the next look: the size of a batch of runs (`workers.oracle.fast_check`)."""


class Examiner:
    """Judges runs in an arena against the operator that was set last; several examiners may share an answer cache."""

    def __init__(
        self,
        card: OracleCard,
        memory: AnswerCache,
        checks: Mapping[str, Check] = CHECKS,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._look_s = look_s
        self._card = card
        self._memory = memory
        self._current: OracleSubject | None = None
        self._is_fresh = False
        self._unknown = 1
        self._examined: _Examination | None = None
        self._checks = checks
        self._results = CheckResults(checks)

    def answer(self, order: Order) -> ExaminedRuns:
        """Carry out a command.

        Raises:
            BadMessage: If the command is not for an oracle, or makes no sense now.
        """
        match order:
            case AttachArena():
                self._memory.make_way(self, order.arena_bytes)
                self._card.attach(order.handle, order.arena_bytes, alone=order.alone)
            case DropCache():
                self.drop_cache()
            case SetOperator():
                self._current = OracleSubject(order.operator, {graph.shape.key: graph for graph in order.graphs})
                self._results = CheckResults(self._checks)
                self._is_fresh, self._examined = order.fresh, None
                secret = "" if order.fresh else self._memory.begin(self._subject.digest)
                return self._conclude().model_copy(update={"secret": secret})
            case ExamineRuns() | ExamineRound():
                self._examined = _Examination(order)
                return self._go_on(self._examined, 0)
            case ExamineMore():
                if self._examined is None:
                    raise BadMessage("no examination is under way")
                return self._go_on(self._examined, order.start)
            case ExamineIdle():
                self._examined = None
                return self._examine_idle(order)
            case _:
                raise BadMessage(f"'{order.order}' is not a command for an oracle")
        return self._conclude()

    def goes_on(self, reply: ExaminedRuns) -> bool:
        """Return True if a look as large is likely to follow: at the rest of these runs, or at another round.

        For outputs of 6.4 GB, freeing and allocating again took half of a look on an H200, and what is freed slows the
        card by a tenth while the driver clears it.
        """
        is_round = self._examined is not None and isinstance(self._examined.order, ExamineRound)
        return reply.outcome is None and (is_round or reply.next is not None)

    def tidy(self) -> None:
        """Release unused memory, if it is much: others on the card may need it next."""
        self._card.free(beyond=IDLE_BYTES)

    def give_way(self) -> None:
        """Drop some of what can be computed again: the card's memory is too small beside it."""
        self._memory.give_way()
        self._card.free()

    def drop_cache(self) -> None:
        """Drop everything that can be computed again, and count the memory that is needed anew."""
        self._memory.clear()
        self._card.free()
        self._card.peak_bytes()

    def peak_bytes(self) -> int:
        """Return the bytes of memory that were needed at a time since `drop_cache`."""
        return self._card.peak_bytes()

    @property
    def _subject(self) -> OracleSubject:
        if self._current is None:
            raise BadMessage("no operator is set yet")
        return self._current

    def _go_on(self, examined: "_Examination", start: int) -> ExaminedRuns:
        """Look at runs from a content on; at the start also at everything that needs no answer.

        Everything follows from the examination and the start, so that a look which ran out of memory can be repeated.
        """
        look = Look(examined.groups, start, self._look_s, self._unknown if start else 1)
        if isinstance(examined.order, ExamineRound):
            return self._examine_round(examined.order, examined.mine, examined.its, look, is_first=start == 0)
        return self._examine(examined.order, examined.mine, look, is_first=start == 0)

    def _examine(self, order: ExamineRuns, runs: list[PlanRun], look: Look, *, is_first: bool) -> ExaminedRuns:
        if is_first:
            damage = describe_damage(self._card, self._subject.operator, runs, order.zones)
            if damage is not None:
                return self._conclude(Outcome.OUT_OF_BOUNDS, damage)
        doubts = _Doubts()
        if order.decides:
            for batch in look.batches(lambda _: False):
                for index in batch:
                    self._results.observe(order.decides, self._evidence(runs[index]))
            return self._conclude(look=look)
        for index in self._suspects(runs, look, len(runs)):
            fresh_draws = doubts.of(order.cases[index].plan, runs[index])
            if self._results.examine(self._evidence(runs[index]), fresh_draws) is not None:
                return self._conclude()
        for first, second in order.repeats if look.next is None else ():
            difference = self._difference(runs[first], runs[second])
            if difference is not None:
                return self._conclude(Outcome.NONDETERMINISTIC, difference)
        return self._conclude(doubts=doubts, look=look)

    def _difference(self, first: PlanRun, second: PlanRun) -> str | None:
        """Describe the difference of two runs on equal content; None if no difference matters."""
        one, other = outputs(self._card, [first, second])
        if not any((self._card.differences([a], [b]) > 0).any() for a, b in zip(one, other, strict=True)):
            return None
        return describe_difference(self._evidence(first), one, other)

    def _examine_round(
        self, order: ExamineRound, mine: list[PlanRun], its: list[PlanRun], look: Look, *, is_first: bool
    ) -> ExaminedRuns:
        if is_first and (found := self._misdeeds(order, mine, its)):
            return found
        doubts, plan = _Doubts(), order.round.plans[PairSide.CANDIDATE]
        runs = [*mine, *its]
        for index in self._suspects(runs, look, len(mine)):
            run = runs[index]
            # The pacer was judged before; a statistic in doubt is no sign that somebody wrote to its memory.
            of_pacer = index >= len(mine)
            results = CheckResults(CHECKS) if of_pacer else self._results
            failed = results.examine(self._evidence(run), (_Doubts() if of_pacer else doubts).of(plan, run))
            if failed is not None and of_pacer:
                reason = "" if results.failure is None else results.failure.reason
                return self._conclude(doubts=doubts).model_copy(update={"pacer": reason})
            if failed is not None:
                return self._conclude()
        return self._conclude(doubts=doubts, look=look)

    def _misdeeds(self, order: ExamineRound, mine: list[PlanRun], its: list[PlanRun]) -> ExaminedRuns | None:
        """Return the findings on a round that need no answer: writes where or when none may be; None if there are none.

        Args:
            order: The round.
            mine: Runs of the candidate.
            its: Runs of the pacer.
        """
        operator, untrusted_sides = self._subject.operator, order.round.untrusted_sides
        uncalled = [run for side in untrusted_sides for run in uncalled_runs(order, side)]
        damage = describe_damage(self._card, operator, mine + its + uncalled, order.round.seed)
        misdeeds = {side: describe_misdeed(self._card, operator, order, side) for side in untrusted_sides}
        if found := damage or misdeeds.get(PairSide.CANDIDATE):
            return self._conclude(Outcome.OUT_OF_BOUNDS, found)
        if found := misdeeds.get(PairSide.PACER):
            return self._conclude().model_copy(update={"pacer": found})
        return None

    def _examine_idle(self, order: ExamineIdle) -> ExaminedRuns:
        if self._card.is_poisoned(order.ranges):
            return self._conclude()
        reason = "it writes to memory far from its buffers: mask its stores, and compute addresses from arguments"
        return self._conclude(Outcome.OUT_OF_BOUNDS, reason)

    def _suspects(self, runs: Sequence[PlanRun], look: Look, mine: int) -> Iterator[int]:
        """Yield positions of the runs in a look that the fast check does not clear, even with widened bounds.

        Widened bounds take ten times as long as the others, and three times the memory; the first wrong run ends an
        examination. So doubted runs are looked at one, two, four at a time, and without them where no bound can help.
        The first `mine` runs are the candidate's; those that are cleared are recorded in the results.
        """
        fast_check = FastCheck(self._card, self._subject, self._memory, keeps=not self._is_fresh)

        def suspected(batch: Sequence[int], *, widened: bool) -> dict[int, ErrorMargin]:
            margins = dict(
                zip(batch, fast_check.margins([runs[index] for index in batch], widened=widened), strict=True)
            )
            passed = [margin for index, margin in margins.items() if index < mine and margin.is_right]
            if passed:
                errors, biases = zip(*passed, strict=True)
                self._results.approve({ErrorRatio.name: max(errors), Bias.name: max(biases)})
            return {index: margin for index, margin in margins.items() if not margin.is_right}

        for batch in look.batches(fast_check.knows):
            self._unknown = look.unknown
            doubted, count = suspected(batch, widened=False), 1
            left = [*doubted]
            while left:
                few, left, count = left[:count], left[count:], 2 * count
                strange = [index for index in few if doubted[index].error == inf and self._is_strange(runs[index])]
                yield from strange
                yield from suspected([index for index in few if index not in strange], widened=True)

    def _is_strange(self, run: PlanRun) -> bool:
        """Return True if a result is NaN or infinite where it must not be, as memory that was never written."""
        check = self._checks.get(SpecialValues.name)
        return check is not None and check.examine(self._evidence(run)).outcome is not None

    def _evidence(self, run: PlanRun) -> CheckEvidence:
        given = inputs_before(self._card, self._subject.operator, run)
        return give_evidence(self._card, self._subject, run, given)

    def _conclude(
        self,
        outcome: Outcome | None = None,
        reason: str = "",
        doubts: "_Doubts | None" = None,
        look: Look | None = None,
    ) -> ExaminedRuns:
        failure = self._results.failure
        if outcome is None and failure is not None:
            outcome, reason = failure.outcome, failure.reason
        found = tuple(doubts.found) if doubts is not None else ()
        left = None if look is None or outcome is not None else look.next
        return ExaminedRuns(outcome=outcome, reason=reason, checks=self._results.results(), doubts=found, next=left)


class _Examination:
    """The last examination that was ordered: its runs are made and grouped once for all looks.

    Attributes:
        order: The command.
        mine: Runs of the candidate.
        its: Runs of the pacer.
        groups: All of them by content.
    """

    def __init__(self, order: ExamineRuns | ExamineRound) -> None:
        self.order, self.its = order, list[PlanRun]()
        if isinstance(order, ExamineRound):
            self.mine, self.its = ([run_of(order, side, case) for case in order.round.cases(side)] for side in PairSide)
        else:
            self.mine = [PlanRun(order.plans[case.plan], case.slot, case.content) for case in order.cases]
        self.groups = ExaminedGroups([*self.mine, *self.its])


class _Doubts:
    """Doubts that an examination leaves open, each once: the oracle runs nothing, so it cannot decide them."""

    def __init__(self) -> None:
        self.found: dict[OpenDoubt, None] = {}

    def of(self, plan: int, run: PlanRun) -> FreshDraws:
        """Return a function that takes down a doubt about a run of a plan, by its position, and yields no draws."""

        def take(check: str, draws: int) -> tuple[CheckEvidence, ...]:
            self.found[OpenDoubt(check=check, plan=plan, draw=run.content.draw, draws=draws)] = None
            return ()

        return take
