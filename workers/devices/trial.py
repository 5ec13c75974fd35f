"""One trial of a variant on a card: which plans are run on which content, and what the checker says of it.

Every number that decides about memory or content is drawn here from the system's randomness, after the bundle is
frozen, in a process that no candidate's code runs in.
"""

import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from random import SystemRandom

from workers.assembler import MachineCode
from workers.devices.crew import Crew
from workers.devices.verdict import Ended
from workers.inputs import DRAWS
from workers.orders import Adopt, Compare, Content, Examine, Examined, Execute, Load, Scrub, Side, Slot
from workers.placement import NoRoom, place
from workers.protocol import Bundle, CheckResult, Graph, Operator, Outcome, Plan, ShapeRole, Stage

SECRET_BYTES = 16
"""Bytes of each secret that content is drawn from."""
LARGE_PLAN_BYTES = 64 * 2**20
"""Bytes of buffers from which a plan is run on `LARGE_DRAWS` only: float64 references of larger ones take 10 ms."""
LARGE_DRAWS = ("normal", "heavy", "shifted")
EXECUTE_S = 5.0
"""Seconds for one run with the loading of its kernels; the slowest honest one takes under one."""
START_STEPS = 4096
"""Most multiples of 256 bytes by which the first buffer is moved on."""


class Trial:
    """A candidate's bundle on the card, and the pacer's beside it.

    Attributes:
        checks: What the checks found so far.
    """

    def __init__(
        self,
        crew: Crew,
        operator: Operator,
        graphs: Sequence[Graph],
        bundles: dict[Side, Bundle],
        codes: Mapping[str, MachineCode],
    ) -> None:
        """Load the bundles, with the machine code of their kernels by digest, and tell the checker what is right.

        Raises:
            Ended: If a plan does not fit the card.
            CardFailed: If the card or its processes failed.
        """
        self.crew = crew
        self.operator = operator
        self.bundles = bundles
        self.random = SystemRandom()
        self.checks: tuple[CheckResult, ...] = ()
        self._graphs = {graph.shape.key: graph for graph in graphs}
        crew.look(Adopt(operator=operator, graphs=tuple(graphs)))
        crew.replay(Scrub(), EXECUTE_S, Stage.CHECK)
        for side, bundle in bundles.items():
            code = {digest: b64encode(codes[digest].code).decode() for digest in bundle.kernels}
            order = Load(side=side, operator=operator, bundle=bundle, machine_code=code)
            crew.replay(order, EXECUTE_S, Stage.CHECK)

    def check(self, *, briefly: bool = False) -> None:
        """Run the candidate's plans, cheap to dear, each on several draws, and have every run looked at.

        Args:
            briefly: Whether to leave out plans that will be timed: of those, only what a race puts out is looked at.

        Raises:
            Ended: At the first run that is not right.
        """
        bundle = self.bundles[Side.CANDIDATE]
        timed = {index for index, _ in benchmarks(bundle)} if briefly else set()
        checked = [index for index in range(len(bundle.plans)) if index not in timed]
        order = sorted(checked, key=lambda index: plan_bytes(bundle.plans[index]))
        for index in order:
            plan = bundle.plans[index]
            for name in draws_for(plan):
                self._run(index, Content(draw=name, seed=secrets.token_hex(SECRET_BYTES)))
        for index in order[:1] if briefly else (order[0], self._first_benchmark()):
            self._run_twice(index)

    def slots(self, side: Side, plan: Plan, count: int, start: int, **options: int) -> tuple[Slot, ...]:
        """Places for runs of a side's plan from a byte of the arena on.

        Raises:
            Ended: If the arena is too small for them.
        """
        try:
            return place(
                self.bundles[side], plan, count, self.random, start=start, limit=self.crew.arena_bytes, **options
            )
        except NoRoom as error:
            raise Ended(Stage.CHECK, Outcome.PLAN_REJECTED, str(error)) from error

    def somewhere(self) -> int:
        """A random offset near the arena's start."""
        return self.random.randrange(START_STEPS) * 256

    def settle(self, examined: Examined, stage: Stage) -> None:
        """Take in what the checker found.

        Raises:
            Ended: If it found something wrong.
        """
        self.checks = examined.checks or self.checks
        if examined.outcome is not None:
            raise Ended(stage, examined.outcome, examined.reason)

    def _run(self, index: int, content: Content) -> None:
        plan = self.bundles[Side.CANDIDATE].plans[index]
        (slot,) = self.slots(Side.CANDIDATE, plan, 1, self.somewhere())
        self._execute(index, slot, content)
        self.settle(self.crew.look(Examine(plan=plan, slot=slot, content=content)), Stage.CHECK)

    def _run_twice(self, index: int) -> None:
        plan = self.bundles[Side.CANDIDATE].plans[index]
        first, second = self.slots(Side.CANDIDATE, plan, 2, self.somewhere())
        content = Content(draw="normal", seed=secrets.token_hex(SECRET_BYTES))
        for slot in (first, second):
            self._execute(index, slot, content)
            self.settle(self.crew.look(Examine(plan=plan, slot=slot, content=content)), Stage.CHECK)
        self.settle(self.crew.look(Compare(plan=plan, slots=(first, second))), Stage.CHECK)

    def _execute(self, index: int, slot: Slot, content: Content) -> None:
        order = Execute(side=Side.CANDIDATE, plan=index, slot=slot, content=content)
        self.crew.replay(order, EXECUTE_S, Stage.CHECK)

    def _first_benchmark(self) -> int:
        return next(index for index, _ in benchmarks(self.bundles[Side.CANDIDATE]))


def benchmarks(bundle: Bundle) -> Iterator[tuple[int, Plan]]:
    """Plans whose time counts, with their positions."""
    for index, plan in enumerate(bundle.plans):
        if plan.shape.role is ShapeRole.BENCHMARK:
            yield index, plan


def plan_bytes(plan: Plan) -> int:
    """Bytes of a plan's buffers."""
    return sum(buffer.bytes for buffer in plan.buffers)


def draws_for(plan: Plan) -> tuple[str, ...]:
    """Which draws a plan is run on."""
    return tuple(DRAWS) if plan_bytes(plan) <= LARGE_PLAN_BYTES else LARGE_DRAWS
