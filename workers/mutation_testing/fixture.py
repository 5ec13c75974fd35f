"""Fixture of trials: one small shape, with its reference in two forms and its cases."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase, cases_at, is_small, more_plantings, telling_graphs
from workers.mutation_testing.formulas import written_out
from workers.protocol import Graph, Operator

MORE_ROUNDS = 2
"""Further rounds of cases for mutants that survive the first, because faults in few rows show by chance."""


@dataclass(frozen=True)
class ShapeFixture:
    """One shape.

    Attributes:
        operator: The contract.
        graph: The reference at this shape.
        cases: The first round, for every answer.
        is_most_telling: True if special values are planted here in all possible ways.
    """

    operator: Operator
    graph: Graph
    cases: tuple[MutationCase, ...]
    is_most_telling: bool

    @classmethod
    def all_of(cls, operator: Operator, graphs: Sequence[Graph]) -> list["ShapeFixture"]:
        """Make the fixtures of all shapes to try; the most telling shape comes first."""
        chosen = enumerate(telling_graphs(operator, graphs))
        return [cls(operator, graph, tuple(cases_at(operator, graph, 0)), index == 0) for index, graph in chosen]

    @cached_property
    def sketch(self) -> TypedGraph:
        """The reference with the forms of its values."""
        return TypedGraph.of(self.graph, self.cases[0].inputs)

    @cached_property
    def formulas(self) -> TypedGraph:
        """The reference written out, from which mutants are made."""
        return TypedGraph.of(written_out(self.sketch), self.cases[0].inputs)

    @cached_property
    def more_cases(self) -> tuple[MutationCase, ...]:
        """The further rounds; none at a shape that is not small."""
        if not is_small(self.operator, self.graph):
            return ()
        rounds = [case for n in range(1, 1 + MORE_ROUNDS) for case in cases_at(self.operator, self.graph, n)]
        return (*rounds, *(more_plantings(self.operator, self.graph) if self.is_most_telling else ()))
