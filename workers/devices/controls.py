"""Controls: plans made from the pacer's own, of which it is known how they must come out.

They are judged like a candidate: the pacer against itself, the pacer done twice a call, and the pacer without its last
launch. If one comes out otherwise, the card, its clocks or our judge cannot be believed just now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

from workers.assembler import MachineCode
from workers.devices.crew import CardFailed, Crew
from workers.devices.race import Pace, Track
from workers.devices.trial import Trial
from workers.devices.verdict import Ended
from workers.orders import Side
from workers.protocol import Allocate, Bundle, Graph, Launch, Operator, Plan

PAIRS = 4
"""Pairs a control: the effects to be seen are large."""
EQUAL_WITHIN = 0.03
"""By how much equal plans may differ in time: ten times the deviation of such races on an H200."""
TWICE = (1.25, 4.0)
"""How much longer a pacer takes that is done twice: less than double where the second time finds its data in the L2
cache, more where it does not and the first did."""


@dataclass(frozen=True)
class Controls:
    """The controls of one operator on one card.

    Attributes:
        crew: The processes that use the card.
        operator: The contract.
        graphs: The reference at every shape.
        pacer: What controls are made from.
        codes: Machine code of its kernels, by digest.
        pace: The pacer's at its first shape that is timed.
    """

    crew: Crew
    operator: Operator
    graphs: Sequence[Graph]
    pacer: Bundle
    codes: Mapping[str, MachineCode]
    pace: Pace

    def run(self) -> dict[str, float]:
        """Judge them all; what was measured, by the control's name.

        Returns:
            `equal` and `twice`, times over the pacer's, and `idle`, which is 1.0 for a refusal.

        Raises:
            CardFailed: If one comes out otherwise than it must.
        """
        plan = self.pacer.benchmarks[0]
        found = {"equal": self._slowdown(plan)}
        if abs(found["equal"] - 1) > EQUAL_WITHIN:
            raise CardFailed(f"a control failed: a plan takes {found['equal']:.3f} times as long as itself")
        if not any(item.mutable for item in self.operator.inputs):
            found["twice"] = self._slowdown(repeated(plan))
            if not TWICE[0] < found["twice"] < TWICE[1]:
                raise CardFailed(f"a control failed: done twice, a plan takes {found['twice']:.3f} times as long")
        return found | {"idle": self._refusal(without_last_launch(plan))}

    def _slowdown(self, plan: Plan) -> float:
        try:
            return exp(self._race(plan))
        except Ended as ended:
            raise CardFailed(f"a control failed: a correct plan is refused, {ended}") from ended

    def _refusal(self, plan: Plan) -> float:
        try:
            self._race(plan)
        except Ended:
            return 1.0
        raise CardFailed("a control failed: a plan that leaves out its last launch was not refused")

    def _race(self, plan: Plan) -> float:
        """Logarithm of a plan's time over the pacer's."""
        pacer = self.pacer.restricted([self.pacer.benchmarks[0]])
        bundles = {Side.CANDIDATE: pacer.model_copy(update={"plans": (plan,)}), Side.PACER: pacer}
        trial = Trial(self.crew, self.operator, self.graphs, bundles, self.codes)
        return Track(trial, dict.fromkeys(Side, 0), self.pace).race(PAIRS).slowdown.mean


def repeated(plan: Plan) -> Plan:
    """The plan with everything that it does done twice."""
    again = tuple(step for step in plan.steps if not isinstance(step, Allocate))
    return plan.model_copy(update={"steps": (*plan.steps, *again)})


def without_last_launch(plan: Plan) -> Plan:
    """The plan with its last launch left out."""
    last = max(index for index, step in enumerate(plan.steps) if isinstance(step, Launch))
    return plan.model_copy(update={"steps": (*plan.steps[:last], *plan.steps[last + 1 :])})
