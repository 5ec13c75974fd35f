"""One trial of a variant on a card: which plans run on which content, and the oracle's findings.

Every number that decides about memory or content is drawn here from the system's randomness, after the bundle is
frozen. No candidate code runs in this process.
"""

import secrets
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from random import SystemRandom
from typing import TypeAlias

from workers.assembler import MachineCode
from workers.commands import (
    POISON,
    SECRET_BYTES,
    ByteRange,
    ExaminedRuns,
    ExamineIdle,
    ExamineMore,
    ExamineRound,
    ExamineRuns,
    ExecuteRuns,
    InputContent,
    LoadBundle,
    OpenDoubt,
    PairSide,
    PoisonRanges,
    Reset,
    RunCase,
    RunSlot,
    SetOperator,
)
from workers.devices.card_processes import CardProcesses
from workers.devices.ending import JudgementEnded
from workers.devices.selection import contract_bytes
from workers.inputs import DRAWS
from workers.memory_layout import ALIGNMENT, SMALL_ZONE_BYTES, ZONE_BYTES, ArenaFull, outside, place, slot_bytes
from workers.protocol import Bundle, CheckResult, Graph, Operator, Outcome, Plan, ShapeRole, Stage

LARGE_PLAN_BYTES = 64 * 2**20
"""Bytes of inputs and results above which a plan usually runs on `LARGE_DRAWS` only: float64 references of larger ones
take 10 ms. Also the bytes of buffers above which it runs apart from smaller ones."""
LARGE_DRAWS = ("normal", "heavy", "shifted")
REPEATED = "normal"
"""The draw on which two runs are compared."""
Choices: TypeAlias = tuple[int, ...]
ZONES: Choices = (SMALL_ZONE_BYTES, ZONE_BYTES)
"""Minimum bytes of red zones: those of timed slots, and wide ones. A kernel knows how far apart its buffers are. If
zones were always wide in checked runs, it could leave out of timed calls what only the draws of checked runs need."""
POISONS: Choices = (POISON, 0x00, 0x3F)
"""Bytes of memory that runs are not given: NaN and minus one, as in timed runs, zeros, or positive numbers near one. A
kernel could take NaN in its output for the sign to write, and leave other content in place; it does so under the other
poisons. The choice is random, so that a draw does not reveal it; plans that run three times meet all."""
EXECUTE_S = 5.0
"""Seconds for all runs of small plans with the loading of their kernels, and for each run of a large one; the slowest
honest one takes under one."""
NOWHERE = (0, 0)
"""The range of runs without slots."""
START_STEPS = 4096
"""Maximum offset of the first buffer, in multiples of the alignment."""


class CheckDepth(StrEnum):
    """Depth of a candidate's checks before it is timed."""

    BRIEF = "brief"
    """Plans that will be timed get no other runs: only the results of timed runs are inspected."""
    USUAL = "usual"
    """Every plan is run, large ones on few draws."""
    THOROUGH = "thorough"
    """Every plan is run on every draw."""


@dataclass(frozen=True)
class CheckedRuns:
    """Runs of one plan on one content: a position in the bundle, a draw, and a count of two if they are compared."""

    plan: int
    draw: str
    count: int


class VariantTrial:
    """A candidate's bundle on the card, and the pacer's beside it.

    Methods raise `JudgementEnded` if the candidate fails, at the first batch with a wrong run, and `CardFailed` if the
    card or its processes fail. `checks` has the results so far.
    """

    def __init__(
        self,
        processes: CardProcesses,
        operator: Operator,
        graphs: Sequence[Graph],
        bundles: dict[PairSide, Bundle],
        codes: Mapping[str, MachineCode],
        *,
        fresh: bool = False,
    ) -> None:
        """Load the bundles, with the machine code of their kernels by digest, and set the oracle's operator.

        If `fresh`, content is used once; otherwise the oracle may have cached its answers.
        """
        self.processes = processes
        self.operator = operator
        self.bundles = bundles
        self.random = SystemRandom()
        self.checks: tuple[CheckResult, ...] = ()
        self._held: ByteRange = NOWHERE
        self._decided: set[OpenDoubt] = set()
        self._choices: dict[tuple[int, Choices], list[int]] = {}
        self._contract_bytes = {graph.shape.key: contract_bytes(operator, graph) for graph in graphs}
        self._uninterrupted = {
            side: any(codes[digest].mix.open_barriers for digest in bundle.kernels) for side, bundle in bundles.items()
        }
        kept = processes.look(SetOperator(operator=operator, graphs=tuple(graphs), fresh=fresh)).secret
        self._secret = "" if fresh else f"{kept} {operator.digest}"
        processes.replay(Reset(), EXECUTE_S, Stage.CHECK)
        for side, bundle in bundles.items():
            code = {digest: b64encode(codes[digest].code).decode() for digest in bundle.kernels}
            order = LoadBundle(side=side, operator=operator, bundle=bundle, machine_code=code)
            processes.replay(order, EXECUTE_S, Stage.CHECK)

    def seed(self, shape: str) -> str:
        """Return a secret of content at a shape, by its key, hexadecimal."""
        if not self._secret:
            return secrets.token_hex(SECRET_BYTES)
        return sha256(f"{self._secret} {shape}".encode()).hexdigest()[: 2 * SECRET_BYTES]

    def check(self, scrutiny: CheckDepth = CheckDepth.USUAL) -> None:
        """Run the candidate's plans, cheap ones first, each on several draws, and inspect every run.

        The first benchmark, and the cheapest plan of each set of compiled kernels, run twice on equal content, once
        under concurrent load: a race may be in one specialisation alone.
        """
        bundle = self.bundles[PairSide.CANDIDATE]
        timed = {index for index, _ in benchmarks(bundle)} if scrutiny is CheckDepth.BRIEF else set()
        checked = [index for index in range(len(bundle.plans)) if index not in timed]
        order = sorted(checked, key=lambda index: plan_bytes(bundle.plans[index]))
        cheapest: dict[frozenset[str], int] = {}
        for index in order:
            cheapest.setdefault(frozenset(launch.kernel for launch in bundle.plans[index].launches), index)
        twice = {*cheapest.values(), next(index for index, _ in benchmarks(bundle))}
        self.run(
            CheckedRuns(index, name, 2 if index in twice and name == REPEATED else 1)
            for index in order
            for name in draws_for(self._contract_bytes[bundle.plans[index].shape.key], scrutiny)
        )

    def run(self, runs: Iterable[CheckedRuns]) -> None:
        """Run plans of the candidate, small ones first, and inspect every run, as many at a time as fit the arena."""
        for batch in self._batches(runs):
            self._run_batch(batch)

    def execute(self, order: ExecuteRuns, timeout_s: float, stage: Stage) -> None:
        """Run plans of a side; alone on the card if its kernels do not tolerate interruption."""
        self.processes.replay(order, timeout_s, stage, exclusive=self._uninterrupted[order.side])

    def take(self, start: int, end: int, stage: Stage) -> None:
        """Give up the memory of former slots for the range from `start` to `end` of the arena.

        Memory without slots holds one pattern: it is overwritten when it is given up, and inspected before it is taken,
        or at the end. So a write to it is noticed, even if a slot takes its place later.
        """
        taken, former = (start, end), self._held
        self._held = taken
        if former != NOWHERE:
            self._look_at(outside(taken, former), stage)
            self.processes.replay(PoisonRanges(ranges=outside(former, taken)), EXECUTE_S, stage)

    def check_idle(self) -> None:
        """Inspect all memory without slots."""
        self._look_at(outside((0, self.processes.arena_bytes), self._held), Stage.TIME)

    def slots(self, side: PairSide, plan: Plan, count: int, start: int, **options: int) -> tuple[RunSlot, ...]:
        """Place slots for runs of a side's plan from a byte of the arena on; the candidate fails if they do not fit."""
        limit = self.processes.arena_bytes
        try:
            return place(self.bundles[side], plan, count, self.random, start=start, limit=limit, **options)
        except ArenaFull as error:
            raise JudgementEnded(Stage.CHECK, Outcome.PLAN_REJECTED, str(error)) from error

    def somewhere(self) -> int:
        """Return a random offset near the arena's start."""
        return self.random.randrange(START_STEPS) * ALIGNMENT

    def looks(self, order: ExamineRuns | ExamineRound) -> Iterator[ExaminedRuns]:
        """Have the oracle look at all runs of a command, in as many looks as it takes; yields each one's findings.

        Other executors get their turns on the card between two looks.
        """
        examined = self.processes.look(order)
        yield examined
        while examined.next is not None:
            examined = self.processes.look(ExamineMore(start=examined.next))
            yield examined

    def inspect(self, order: ExamineRuns | ExamineRound, stage: Stage) -> str:
        """Record the oracle's findings on all runs of a command; the candidate fails if there is a wrong run.

        Doubts are decided by further runs, each once: what passed such a decision is not tried again. These runs take
        the memory of those that are looked at, so they come last.

        Returns:
            The fault of a run of the pacer, which ends the looks; empty if there is none.
        """
        doubts: dict[OpenDoubt, None] = {}
        for examined in self.looks(order):
            self._note(examined, stage)
            if examined.pacer:
                return examined.pacer
            doubts |= dict.fromkeys(examined.doubts)
        for doubt in doubts:
            if doubt not in self._decided:
                self._decided.add(doubt)
                self._decide(doubt, stage)
        return ""

    def _note(self, examined: ExaminedRuns, stage: Stage) -> None:
        """Record findings; the candidate fails if there is a wrong run."""
        self.checks = examined.checks or self.checks
        if examined.outcome is not None:
            raise JudgementEnded(stage, examined.outcome, examined.reason)

    def _decide(self, doubt: OpenDoubt, stage: Stage) -> None:
        """Run a plan on fresh draws that decide a doubt together, as many at a time as fit the arena."""
        plan, left = self.bundles[PairSide.CANDIDATE].plans[doubt.plan], doubt.draws
        needed, held = slot_bytes(self.bundles[PairSide.CANDIDATE], plan), self._held
        while left:
            count = max(1, min(left, (self.processes.arena_bytes - START_STEPS * ALIGNMENT) // max(1, needed)))
            first = end = self.somewhere()
            cases = []
            for _ in range(count):
                content = InputContent(draw=doubt.draw, seed=secrets.token_hex(SECRET_BYTES))
                (slot,) = self.slots(PairSide.CANDIDATE, plan, 1, end, zone_bytes=self._choose(doubt.plan, ZONES))
                poison = self._choose(doubt.plan, POISONS)
                cases.append(RunCase(plan=doubt.plan, slot=slot, content=content, poison=poison))
                end = slot.end
            self.take(first, end, stage)
            self._run_cases(cases, stage, decides=doubt.check)
            left -= count
        self.take(*held, stage)  # A timing goes on in its slots.

    def _run_cases(
        self, cases: Sequence[RunCase], stage: Stage, *, repeats: tuple[tuple[int, int], ...] = (), decides: str = ""
    ) -> None:
        """Run cases of the candidate, and have the oracle inspect them."""
        plans = self.bundles[PairSide.CANDIDATE].plans
        zones = secrets.token_hex(SECRET_BYTES)
        slow = sum(is_large(plans[case.plan]) for case in cases)
        order = ExecuteRuns(side=PairSide.CANDIDATE, cases=tuple(cases), zones=zones)
        self.execute(order, EXECUTE_S * max(1, slow), stage)
        used = {case.plan: plans[case.plan] for case in cases}
        look = ExamineRuns(plans=used, cases=tuple(cases), zones=zones, repeats=repeats, decides=decides)
        self.inspect(look, stage)

    def _look_at(self, ranges: tuple[ByteRange, ...], stage: Stage) -> None:
        self._note(self.processes.look(ExamineIdle(ranges=ranges)), stage)

    def _batches(self, runs: Iterable[CheckedRuns]) -> Iterator[list[CheckedRuns]]:
        bundle = self.bundles[PairSide.CANDIDATE]
        batch: list[CheckedRuns] = []
        left, large = 0, False
        for each in runs:
            plan = bundle.plans[each.plan]
            needed = each.count * slot_bytes(bundle, plan)
            if batch and (needed > left or large != is_large(plan)):
                yield batch
                batch = []
            if not batch:
                left, large = self.processes.arena_bytes - START_STEPS * ALIGNMENT, is_large(plan)
            batch.append(each)
            left -= needed
        if batch:
            yield batch

    def _run_batch(self, batch: Sequence[CheckedRuns]) -> None:
        plans = self.bundles[PairSide.CANDIDATE].plans
        cases: list[RunCase] = []
        repeats: list[tuple[int, int]] = []
        first = end = self.somewhere()
        for runs in batch:
            plan = plans[runs.plan]
            if runs.count > 1:
                repeats.append((len(cases), len(cases) + 1))
            content = InputContent(draw=runs.draw, seed=self.seed(plan.shape.key))
            with_load = self.random.randrange(runs.count) if runs.count > 1 else None
            for number in range(runs.count):
                (slot,) = self.slots(PairSide.CANDIDATE, plan, 1, end, zone_bytes=self._choose(runs.plan, ZONES))
                cases.append(
                    RunCase(
                        plan=runs.plan,
                        slot=slot,
                        content=content,
                        poison=self._choose(runs.plan, POISONS),
                        concurrent_load=number == with_load,
                    )
                )
                end = slot.end
        self.take(first, end, Stage.CHECK)
        self._run_cases(cases, Stage.CHECK, repeats=tuple(repeats))

    def _choose(self, plan: int, choices: Choices) -> int:
        """Choose a number at random for the next run of a plan: each comes once before one comes again."""
        left = self._choices.setdefault((plan, choices), [])
        if not left:
            left += self.random.sample(choices, len(choices))
        return left.pop()


def room_for(*bundles: Bundle, runs: int = 2) -> int:
    """Return bytes of an arena for `runs` runs at a time of any plan: of both sides, or of one on equal content."""
    largest = max((slot_bytes(bundle, plan) for bundle in bundles for plan in bundle.plans), default=0)
    return START_STEPS * ALIGNMENT + runs * largest


def benchmarks(bundle: Bundle) -> Iterator[tuple[int, Plan]]:
    """Yield the plans whose time counts, with their positions."""
    for index, plan in enumerate(bundle.plans):
        if plan.shape.role is ShapeRole.BENCHMARK:
            yield index, plan


def plan_bytes(plan: Plan) -> int:
    """Return bytes of a plan's buffers."""
    return sum(buffer.bytes for buffer in plan.buffers)


def draws_for(size: int, scrutiny: CheckDepth) -> tuple[str, ...]:
    """Return the draws of a plan, by the bytes of its inputs and results: its other memory is its own choice."""
    return LARGE_DRAWS if size > LARGE_PLAN_BYTES and scrutiny is not CheckDepth.THOROUGH else tuple(DRAWS)


def is_large(plan: Plan) -> bool:
    """Return True if runs of a plan are so expensive that it has fewer of them."""
    return plan_bytes(plan) > LARGE_PLAN_BYTES
