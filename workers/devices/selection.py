"""Which plans of a bundle are executed, and on which draws: the smaller a plan, the more."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.inputs import DRAWS
from workers.protocol import Bundle, Graph, Plan

LARGEST_PLAN_BYTES = 4 * 2**20
"""Bytes of a plan's buffers up to which it is executed: about half a second for five draws on one core."""
ALL_DRAWS_BYTES = 2**18
"""Bytes of a plan's buffers up to which every draw is applied; larger ones get `normal` and one more in turn."""
TOTAL_BYTES = 16 * 2**20
"""Bytes over all plans and draws: what one core executes in about a second."""
PROGRAM_BYTES = 64
"""Bytes that a program counts for, as it costs time without touching any."""


@dataclass(frozen=True)
class Case:
    """One plan to execute.

    Attributes:
        plan: The plan.
        graph: The reference for its shape.
        draws: Names of input draws.
    """

    plan: Plan
    graph: Graph
    draws: tuple[str, ...]


def select_cases(bundle: Bundle, graphs: Sequence[Graph]) -> list[Case]:
    """Plans that are small enough to execute, the cheapest first.

    Benchmark shapes are rarely among them. The cheapest plan that is no larger than the limit always is.
    """
    by_shape = {graph.shape.key: graph for graph in graphs}
    plans = sorted((plan for plan in bundle.plans if plan.shape.key in by_shape), key=plan_bytes)
    others = [name for name in DRAWS if name != "normal"]
    cases: list[Case] = []
    spent = 0
    for index, plan in enumerate(plans):
        size = plan_bytes(plan)
        draws = tuple(DRAWS) if size <= ALL_DRAWS_BYTES else ("normal", others[index % len(others)])
        if size > LARGEST_PLAN_BYTES or (cases and spent + size * len(draws) > TOTAL_BYTES):
            break
        spent += size * len(draws)
        cases.append(Case(plan, by_shape[plan.shape.key], draws))
    return cases


def within(cases: Sequence[Case], most_bytes: int) -> list[Case]:
    """As many cases as cost no more than that together, the cheapest first."""
    chosen: list[Case] = []
    for case in sorted(cases, key=lambda case: plan_bytes(case.plan)):
        most_bytes -= plan_bytes(case.plan) * len(case.draws)
        if most_bytes < 0:
            break
        chosen.append(case)
    return chosen


def plan_bytes(plan: Plan) -> int:
    """What a plan costs to execute once, in bytes of buffers."""
    programs = sum(launch.grid[0] * launch.grid[1] * launch.grid[2] for launch in plan.launches)
    return sum(buffer.bytes for buffer in plan.buffers) + programs * PROGRAM_BYTES
