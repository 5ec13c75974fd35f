"""The examiner: carries out commands and returns findings."""

from collections.abc import Mapping, Sequence

from workers.checks import CHECKS, Check, CheckEvidence, CheckResults
from workers.checks.base import FreshDraws
from workers.checks.bias import Bias
from workers.checks.error_ratio import ErrorRatio
from workers.commands import (
    AttachArena,
    DropCache,
    ExaminedRuns,
    ExamineIdle,
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
from workers.oracle.fast_check import FastCheck
from workers.oracle.isolation import describe_misdeed, run_of, uncalled_runs
from workers.oracle.red_zones import describe_damage
from workers.oracle.repetition import describe_difference
from workers.oracle.views import give_evidence, inputs_before, outputs
from workers.protocol import Outcome

IDLE_BYTES = 8 * 2**30
"""Maximum unused memory that is kept for the next look: the size of a batch of runs (`workers.oracle.fast_check`)."""


class Examiner:
    """Judges runs in an arena against the operator that was set last; several examiners may share an answer cache."""

    def __init__(self, card: OracleCard, memory: AnswerCache, checks: Mapping[str, Check] = CHECKS) -> None:
        self._card = card
        self._memory = memory
        self._current: OracleSubject | None = None
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
                self._card.attach(order.handle, order.arena_bytes)
            case DropCache():
                self.drop_cache()
            case SetOperator():
                self._current = OracleSubject(order.operator, {graph.shape.key: graph for graph in order.graphs})
                self._results = CheckResults(self._checks)
                return self._conclude().model_copy(update={"secret": self._memory.begin()})
            case ExamineRuns():
                return self._examine(order)
            case ExamineIdle():
                return self._examine_idle(order)
            case ExamineRound():
                return self._examine_round(order)
            case _:
                raise BadMessage(f"'{order.order}' is not a command for an oracle")
        return self._conclude()

    def tidy(self) -> None:
        """Release unused memory, if it is much: others on the card may need it next."""
        self._card.free(beyond=IDLE_BYTES)

    def drop_cache(self) -> None:
        """Drop everything that can be computed again."""
        self._memory.clear()
        self._card.free()

    @property
    def _subject(self) -> OracleSubject:
        if self._current is None:
            raise BadMessage("no operator is set yet")
        return self._current

    def _examine(self, order: ExamineRuns) -> ExaminedRuns:
        runs = [PlanRun(order.plans[case.plan], case.slot, case.content) for case in order.cases]
        damage = describe_damage(self._card, self._subject.operator, runs, order.zones)
        if damage is not None:
            return self._conclude(Outcome.OUT_OF_BOUNDS, damage)
        if order.decides:
            for run in runs:
                self._results.observe(order.decides, self._evidence(run))
            return self._conclude()
        doubts = _Doubts()
        for plan in dict.fromkeys(case.plan for case in order.cases):
            mine = [run for run, case in zip(runs, order.cases, strict=True) if case.plan == plan]
            for run in self._suspects(mine)[0]:
                if self._results.examine(self._evidence(run), doubts.of(plan, run)) is not None:
                    return self._conclude()
        for first, second in order.repeats:
            difference = self._difference(runs[first], runs[second])
            if difference is not None:
                return self._conclude(Outcome.NONDETERMINISTIC, difference)
        return self._conclude(doubts=doubts)

    def _difference(self, first: PlanRun, second: PlanRun) -> str | None:
        """Describe the difference of two runs on equal content; None if no difference matters."""
        one, other = outputs(self._card, [first, second])
        if not any((self._card.differences([a], [b]) > 0).any() for a, b in zip(one, other, strict=True)):
            return None
        return describe_difference(self._evidence(first), one, other)

    def _examine_round(self, order: ExamineRound) -> ExaminedRuns:
        mine, its = ([run_of(order, side, case) for case in order.round.cases(side)] for side in PairSide)
        if order.part == 0 and (found := self._misdeeds(order, mine, its)):
            return found
        candidates, pacers = self._suspects(*(_part(runs, order.part, order.parts) for runs in (mine, its)))
        doubts, plan = _Doubts(), order.round.plans[PairSide.CANDIDATE]
        for run in candidates:
            if self._results.examine(self._evidence(run), doubts.of(plan, run)) is not None:
                return self._conclude()
        for run in pacers:
            results = CheckResults(CHECKS)
            # The pacer was judged before; a statistic in doubt is no sign that somebody wrote to its memory.
            results.examine(self._evidence(run), _Doubts().of(plan, run))
            if results.failure is not None:
                return self._conclude(doubts=doubts).model_copy(update={"pacer": results.failure.reason})
        return self._conclude(doubts=doubts)

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

    def _suspects(self, mine: Sequence[PlanRun], its: Sequence[PlanRun] = ()) -> tuple[list[PlanRun], list[PlanRun]]:
        """Return the candidate's and the pacer's runs that the fast check does not clear, even with widened bounds.

        The candidate's are of one plan; those that are cleared are recorded in the results.
        """
        fast_check, runs = FastCheck(self._card, self._subject, self._memory), [*mine, *its]
        margins = fast_check.margins(runs)
        doubted = [index for index, margin in enumerate(margins) if not margin.is_right]
        again = fast_check.margins([runs[index] for index in doubted], widened=True) if doubted else []
        for index, margin in zip(doubted, again, strict=True):
            margins[index] = margin
        passed = [margin for margin in margins[: len(mine)] if margin.is_right]
        if passed:
            errors, biases = zip(*passed, strict=True)
            self._results.approve({ErrorRatio.name: max(errors), Bias.name: max(biases)})
        suspects = [index for index, margin in enumerate(margins) if not margin.is_right]
        return (
            [runs[index] for index in suspects if index < len(mine)],
            [runs[index] for index in suspects if index >= len(mine)],
        )

    def _evidence(self, run: PlanRun) -> CheckEvidence:
        given = inputs_before(self._card, self._subject.operator, run)
        return give_evidence(self._card, self._subject, run, given)

    def _conclude(
        self, outcome: Outcome | None = None, reason: str = "", doubts: "_Doubts | None" = None
    ) -> ExaminedRuns:
        failure = self._results.failure
        if outcome is None and failure is not None:
            outcome, reason = failure.outcome, failure.reason
        found = tuple(doubts.found) if doubts is not None else ()
        return ExaminedRuns(outcome=outcome, reason=reason, checks=self._results.results(), doubts=found)


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


def _part(runs: Sequence[PlanRun], part: int, parts: int) -> list[PlanRun]:
    """Return one part of a round's runs, by content: all runs on equal content are in the same part."""
    numbers = {content: number for number, content in enumerate(dict.fromkeys(run.content for run in runs))}
    return [run for run in runs if numbers[run.content] % parts == part]
