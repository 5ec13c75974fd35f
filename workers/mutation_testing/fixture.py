"""Fixture of trials: one small shape, with its reference in two forms and its cases."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from workers.mutation_testing.answers import HONEST_ANSWERS, honest_graphs
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase, Tensors, cases_at, is_small, more_plantings, telling_graphs
from workers.mutation_testing.equality import HonestErrors
from workers.mutation_testing.formulas import written_out
from workers.protocol import Graph, Operator
from workers.reference import evaluate

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

    def honest_answers(self, case: MutationCase) -> dict[str, Tensors]:
        """Return right answers to a case, by name."""
        graphs = honest_graphs(self.sketch, self.formulas)
        made = {name: evaluate(graph, case.inputs, double=False) for name, graph in graphs.items()}
        return {**{name: make(case) for name, make in HONEST_ANSWERS.items()}, **made}

    def honest_errors(self, case: MutationCase) -> tuple[HonestErrors, ...]:
        """Return the errors of right answers to a case, by output; measured once."""
        if id(case) not in self._honest:
            self._honest[id(case)] = HonestErrors.of(case, self.honest_answers(case).values())
        return self._honest[id(case)]

    @cached_property
    def _honest(self) -> dict[int, tuple[HonestErrors, ...]]:
        """Errors of right answers by case; the cases live as long as the fixture."""
        return {}

    @cached_property
    def more_cases(self) -> tuple[MutationCase, ...]:
        """The further rounds; none at a shape that is not small."""
        if not is_small(self.operator, self.graph):
            return ()
        rounds = [case for n in range(1, 1 + MORE_ROUNDS) for case in cases_at(self.operator, self.graph, n)]
        return (*rounds, *(more_plantings(self.operator, self.graph) if self.is_most_telling else ()))
