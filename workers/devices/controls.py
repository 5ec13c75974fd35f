"""Controls: plans made from the pacer's own, with known results.

They are judged like a candidate: the pacer against itself, the pacer done twice per call, and the pacer without its
last launch. If one has another result, the card, its clocks or the judge cannot be trusted now.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

from workers.assembler import MachineCode
from workers.commands import PairSide
from workers.devices.card_processes import CardFailed, CardProcesses
from workers.devices.ending import JudgementEnded
from workers.devices.paired_timing import REST_S, CallTime, PairedTimer, PairedTimes
from workers.devices.trial import VariantTrial
from workers.protocol import Allocate, Bundle, Graph, Launch, Operator, Plan

EQUAL_PAIRS, PAIRS = 16, 4
"""Pairs of equal plans, as many as a variant gets, and of the other controls, whose effects are large."""
EQUAL_WITHIN = 0.015
"""Maximum relative difference of equal plans in time. A hundred such timings of four pairs deviate by 0.5 % on H100s.
So sixteen pairs are off by as much once in a hundred million. The protocol's 0.5 % (3.4) would void one batch in
twenty."""
JOBS_PER_BATCH = 50
"""Measurements on an operator between two runs of its controls, which take 0.2 s, and seconds of a card with gigabytes
of inputs."""
BATCH_S, CONFIRM_S = 600.0, 60.0
"""Seconds after which controls run again even after fewer measurements, before a measurement and before a confirm: a
card may have changed since."""
HOST_FACTOR = 2.0
"""Maximum ratio of the quickest round by the host's clock to the card's timer. The host also counts the filling before
the first sample, and its own waiting."""
TWICE = (1.25, 4.0)
"""Bounds of the time ratio of a pacer that is done twice: below 2 if the second time finds its data in the L2 cache,
above if it does not and the first did."""


@dataclass(frozen=True)
class TimingControls:
    """The controls of one operator on one card.

    Attributes:
        processes: The processes that use the card.
        operator: The contract.
        graphs: The reference at every shape.
        pacer: Source of the controls.
        codes: Machine code of its kernels, by digest.
        call_time: Call time of the pacer at its first benchmark shape.
    """

    processes: CardProcesses
    operator: Operator
    graphs: Sequence[Graph]
    pacer: Bundle
    codes: Mapping[str, MachineCode]
    call_time: CallTime

    def run(self) -> dict[str, float]:
        """Judge all controls. Returns the measured values by the control's name.

        Returns:
            `equal` and `twice`, times over the pacer's; `host`, a round by the host's clock over the card's timer; and
            `idle`, which is 1.0 for a refusal.

        Raises:
            JudgementEnded: If the pacer is refused: once, or done twice.
            CardFailed: If a control has another result than it must have.
        """
        plan = self.pacer.benchmarks[0]
        timing = self._time(plan, EQUAL_PAIRS)
        found = {"equal": exp(timing.slowdown.mean), "host": timing.host_factor}
        if abs(found["equal"] - 1) > EQUAL_WITHIN:
            raise CardFailed(f"a control failed: a plan takes {found['equal']:.3f} times as long as itself")
        if found["host"] > HOST_FACTOR:
            raise CardFailed(f"a control failed: by the host's clock a round takes {found['host']:.2f} times as long")
        if not any(item.mutable for item in self.operator.inputs):
            found["twice"] = exp(self._time(repeated(plan), PAIRS).slowdown.mean)
            if not TWICE[0] < found["twice"] < TWICE[1]:
                raise CardFailed(f"a control failed: done twice, a plan takes {found['twice']:.3f} times as long")
        return found | {"idle": self._refusal(without_last_launch(plan))}

    def _refusal(self, plan: Plan) -> float:
        try:
            self._time(plan, PAIRS)
        except JudgementEnded:
            return 1.0
        raise CardFailed("a control failed: a plan that leaves out its last launch was not refused")

    def _time(self, plan: Plan, pairs: int) -> PairedTimes:
        """Time a plan beside the pacer; the card rests, so that both sides of a pair find it in one state."""
        pacer = self.pacer.restricted([self.pacer.benchmarks[0]])
        bundles = {PairSide.CANDIDATE: pacer.model_copy(update={"plans": (plan,)}), PairSide.PACER: pacer}
        trial = VariantTrial(self.processes, self.operator, self.graphs, bundles, self.codes)
        return PairedTimer(trial, dict.fromkeys(PairSide, 0), self.call_time, rest_s=REST_S).time(pairs)


@dataclass
class _Batch:
    """Jobs that rest on the same controls: their values, its beginning, and the number of jobs."""

    controls: dict[str, float]
    since: float
    jobs: int = 0


class ControlBatches:
    """The present batch of each operator."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def controls(self, operator: str, within_s: float = BATCH_S) -> dict[str, float] | None:
        """Return the values of an operator's present controls, by its digest.

        Returns:
            The values; None if a batch begins, because of the number of jobs or after `within_s`.
        """
        batch = self._batches.get(operator)
        if batch is None or batch.jobs >= JOBS_PER_BATCH or time.monotonic() >= batch.since + within_s:
            return None
        return batch.controls

    def count(self, operator: str, controls: dict[str, float] | None) -> None:
        """Count a job with the controls that it rests on; None if it ended before there were any."""
        if controls is None:
            return
        batch = self._batches.get(operator)
        if batch is None or batch.controls is not controls:
            batch = self._batches[operator] = _Batch(controls, time.monotonic())
        batch.jobs += 1


def repeated(plan: Plan) -> Plan:
    """Return the plan with all its work done twice."""
    again = tuple(step for step in plan.steps if not isinstance(step, Allocate))
    return plan.model_copy(update={"steps": (*plan.steps, *again)})


def without_last_launch(plan: Plan) -> Plan:
    """Return the plan without its last launch."""
    last = max(index for index, step in enumerate(plan.steps) if isinstance(step, Launch))
    return plan.model_copy(update={"steps": (*plan.steps[:last], *plan.steps[last + 1 :])})
