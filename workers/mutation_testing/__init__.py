"""Mutation testing: before a search, an operator's checks must tell right answers from wrong ones.

Answers are checked as candidates will be, on small shapes with every draw of inputs. Trivial answers and mutants of the
reference must fail; honest implementations must pass. Answers are data, made from the inputs and the reference graph:
no foreign code runs.
"""

import time
from collections.abc import Callable, Sequence

from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.runs import Trials, honest_entries, mutant_entries, trivial_entries
from workers.mutation_testing.verdict import summed_up
from workers.protocol import REASON_CHARS, Graph, MutationEntry, MutationReport, Operator
from workers.reference import ReferenceFailed

__all__ = ["LIMIT_S", "admit"]

LIMIT_S = 8.0
"""Processor seconds after which no further answer is tried; a busy machine reaches the same verdict."""
SHARES: dict[Trials, float] = {honest_entries: 0.25, trivial_entries: 0.5, mutant_entries: 1.0}
"""Kinds of trials, in order, with the share of the time after which each must end."""


def admit(operator: Operator, graphs: Sequence[Graph], limit_s: float = LIMIT_S) -> MutationReport:
    """Test an operator's checks with wrong and right answers.

    Args:
        operator: The contract.
        graphs: Its reference. Only small shapes are evaluated, or the smallest one if none is small.
        limit_s: Processor seconds after which further answers stay untried.

    Returns:
        The table of trials, and the verdict on whether a search may start.
    """
    started = time.process_time()
    fixtures = ShapeFixture.all_of(operator, graphs)
    table: list[MutationEntry] = []
    try:
        for trials, share in SHARES.items():
            table += trials(fixtures, _clock(started + share * limit_s))
    except ReferenceFailed as failed:
        return MutationReport(verdict="failed", reason=str(failed)[:REASON_CHARS])
    shapes = [fixture.graph.shape.key for fixture in fixtures]
    return summed_up(operator, shapes, table, time.process_time() - started)


def _clock(end: float) -> Callable[[], bool]:
    """Return a function that is True once the processor time of this process is past an end."""
    return lambda: time.process_time() > end
