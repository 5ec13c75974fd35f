"""Times of a judged plan's launches, by the clock of the judge: how much longer the plan takes with each of them.

A plan that ends early is timed beside the whole one, in the same rounds of paired samples as candidates. So no event
lies between launches, and each finds the memory as in the whole call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from workers.assembler import MachineCode
from workers.commands import ExamineRound, PairSide
from workers.devices.card_processes import CardProcesses
from workers.devices.paired_timing import CallTime, PairedTimer, PairedTimes
from workers.devices.trial import VariantTrial, room_for
from workers.protocol import Bundle, Launch, Operator, Plan

PAIRS = 16
"""Pairs of samples per launch, as many as a candidate gets."""
MOST_LAUNCHES = 16
"""Maximum number of launches that are timed one by one; each takes some 50 ms."""


@dataclass(frozen=True)
class LaunchTimes:
    """Microseconds of a call, and of its launches in order, each with the fills and copies before it.

    Those behind the last launch belong to it. `launches_us` is empty if there are too many.
    """

    plan_us: float
    launches_us: tuple[float, ...]


class _UnfinishedTimer(PairedTimer):
    """Timer of a plan that ends early beside the whole one: its outputs are not finished, so nobody inspects them."""

    def _look_at(self, order: ExamineRound) -> None:
        pass


def time_launches(
    processes: CardProcesses, operator: Operator, bundle: Bundle, codes: Mapping[str, MachineCode]
) -> LaunchTimes:
    """Time the only plan of a judged bundle, and its launches.

    Args:
        processes: The processes of the card.
        operator: The contract.
        bundle: The bundle.
        codes: Machine code by kernel digest.

    Raises:
        JudgementEnded: If it does not end, or does not fit the card.
        CardFailed: If the card or a process that uses it failed.
    """
    (plan,) = bundle.plans
    parts = beginnings(plan)
    unfinished = bundle.model_copy(update={"plans": parts})
    processes.provide(room_for(bundle))
    bundles = {PairSide.CANDIDATE: unfinished, PairSide.PACER: bundle}
    trial = VariantTrial(processes, operator, (), bundles, codes, fresh=True)
    call_time, timed = CallTime(), list[PairedTimes]()
    for number in range(len(parts)):
        timer = _UnfinishedTimer(trial, {PairSide.CANDIDATE: number, PairSide.PACER: 0}, call_time)
        timed.append(timer.time(PAIRS, lambda _: False))
    return launch_times(timed, len(plan.launches))


def launch_times(timed: Sequence[PairedTimes], launches: int) -> LaunchTimes:
    """Return the times of launches from those of beginnings, the last of which is the whole plan.

    A launch that hides behind the one before it takes no time of its own, never less.
    """
    plan_us = median(time_us for times in timed for time_us in times.pacer_us)
    if len(timed) < launches:
        return LaunchTimes(plan_us, ())
    ends_us = [0.0, *(plan_us * times.slowdown.bounds()[1] for times in timed[:-1]), plan_us]
    return LaunchTimes(plan_us, tuple(max(0.0, end - start) for start, end in pairwise(ends_us)))


def beginnings(plan: Plan) -> tuple[Plan, ...]:
    """Return the plan cut off after each launch but the last, then the whole; only the whole if there are too many."""
    ends = [at + 1 for at, step in enumerate(plan.steps) if isinstance(step, Launch)][:-1]
    if len(ends) >= MOST_LAUNCHES:
        ends = []
    return (*(plan.model_copy(update={"steps": plan.steps[:end]}) for end in ends), plan)
