"""Selection of the plans of a bundle to execute, and their draws: the smaller the inputs and results, the more.

A plan's other memory is the candidate's choice, and has no influence here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from workers.inputs import DRAWS
from workers.protocol import DTYPE_BYTES, Bundle, Graph, Operator, Plan

LARGEST_BYTES = 4 * 2**20
"""Maximum bytes of inputs and results of an executed plan: about half a second for five draws on one core. The
smallest may be larger, within `TOTAL_BYTES`: weights of fixed sizes leave no other."""
ALL_DRAWS_BYTES = 2**18
"""Maximum bytes of inputs and results for every draw; larger plans get `normal` and one more in turn, except the
smallest, if it is within `TOTAL_BYTES`: beside caches only that one is executed, and would never see ends of ranges."""
TOTAL_BYTES = 16 * 2**20
"""Maximum bytes over all plans and draws: about a second on one core."""
MOST_ROWS = 2048
"""Maximum rows of results of an executed plan that is not the smallest: programs that walk over rows take milliseconds
for each of them."""
ROW_BYTES = 64
"""Bytes that a row of results counts for: many kernels have a program per row, which takes time of its own."""


@dataclass(frozen=True)
class SelectedRun:
    """One plan to execute.

    Attributes:
        plan: The plan.
        graph: The reference for its shape.
        draws: Names of input draws.
        cost: Estimated cost of executing it once, in bytes.
    """

    plan: Plan
    graph: Graph
    draws: tuple[str, ...]
    cost: int


def select_cases(bundle: Bundle, graphs: Sequence[Graph], operator: Operator) -> list[SelectedRun]:
    """Select plans at shapes that are small enough to execute, the smallest first.

    Benchmark shapes are rarely among them. The smallest plan within the limit always is.
    """
    costs = {graph.shape.key: (cost(operator, graph), graph) for graph in graphs}
    known = [(*costs[plan.shape.key], plan) for plan in bundle.plans if plan.shape.key in costs]
    others = [name for name in DRAWS if name != "normal"]
    cases: list[SelectedRun] = []
    spent = 0
    for index, (size, graph, plan) in enumerate(sorted(known, key=lambda each: each[0])):
        most = ALL_DRAWS_BYTES if cases else TOTAL_BYTES // len(DRAWS)
        draws = tuple(DRAWS) if size <= most else ("normal", others[index % len(others)])
        if cases and rows(operator, graph) > MOST_ROWS:
            continue
        if (cases and size > LARGEST_BYTES) or spent + size * len(draws) > TOTAL_BYTES:
            break
        spent += size * len(draws)
        cases.append(SelectedRun(plan, graph, draws, size))
    return cases


def within(cases: Sequence[SelectedRun], most_bytes: int) -> list[SelectedRun]:
    """Return as many cases as fit into the total, the smallest first."""
    chosen: list[SelectedRun] = []
    for case in sorted(cases, key=lambda case: case.cost):
        most_bytes -= case.cost * len(case.draws)
        if most_bytes < 0:
            break
        chosen.append(case)
    return chosen


def cost(operator: Operator, graph: Graph) -> int:
    """Estimate the cost of executing a plan at the graph's shape, in bytes of inputs and results."""
    return contract_bytes(operator, graph) + ROW_BYTES * rows(operator, graph)


def rows(operator: Operator, graph: Graph) -> int:
    """Return the rows of an operator's results at the graph's shape; a value per row of an input counts as one.

    The index of the largest number in each of 8192 rows has a shape of one row, and takes the work of 8192.
    """
    given = {operator.input_shape(item, graph.shape.dims)[:-1] for item in operator.given}
    return sum(prod(shape if shape in given else shape[:-1]) for shape in graph.output_shapes)


def contract_bytes(operator: Operator, graph: Graph) -> int:
    """Return the bytes of an operator's inputs, and of its results in the reference, at the graph's shape."""
    results = zip(graph.output_shapes, graph.output_dtypes, strict=True)
    return operator.input_bytes(graph.shape.dims) + sum(prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in results)
