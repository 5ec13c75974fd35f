"""The admission gate: before anybody searches for kernels, an operator's checks must tell right from wrong.

Trivial answers and mutants of the reference are held against the checks that candidates will meet, on small shapes with
every draw of inputs; they must fail, and honest implementations must pass. Answers are data, made from the inputs and
from the reference graph: nobody's code runs.
"""

import time
from collections.abc import Callable, Sequence

from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.runs import Trials, honest_entries, mutant_entries, trivial_entries
from workers.mutation_testing.verdict import summed_up
from workers.protocol import Graph, MutationEntry, MutationReport, Operator

__all__ = ["LIMIT_S", "admit"]

LIMIT_S = 8.0
"""Processor seconds after which no further answer is tried; a busy machine comes to the same verdict."""
SHARES: dict[Trials, float] = {honest_entries: 0.25, trivial_entries: 0.5, mutant_entries: 1.0}
"""What is tried, in order, and the share of the time that is over when it must end."""


def admit(operator: Operator, graphs: Sequence[Graph], limit_s: float = LIMIT_S) -> MutationReport:
    """Hold wrong and right answers against an operator's checks.

    Args:
        operator: The contract.
        graphs: Its reference. Only small shapes are evaluated, or the smallest one if none is small.
        limit_s: Processor seconds after which what was not tried is left untried.

    Returns:
        The table of what was tried, and whether a search may start.
    """
    started = time.process_time()
    grounds = ShapeFixture.all_of(operator, graphs)
    table: list[MutationEntry] = []
    for trials, share in SHARES.items():
        table += trials(grounds, _clock(started + share * limit_s))
    shapes = [ground.graph.shape.key for ground in grounds]
    return summed_up(operator, shapes, table, time.process_time() - started)


def _clock(end: float) -> Callable[[], bool]:
    """Whether the processor time of this process is past an end."""
    return lambda: time.process_time() > end
