"""The cases that answers are held against: small shapes with every draw of inputs, and the checks candidates meet."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.checks import CHECKS, CheckEvidence, CheckResults, Expectation
from workers.float8 import readable
from workers.inputs import DRAWS, PLANTED, draw
from workers.protocol import Graph, Operator, ShapeRole

MOST_SHAPES = 7
"""Shapes that are tried: all boundary shapes, and a benchmark shape if it is small."""
SMALL_ELEMENTS = 2**17
"""Elements of inputs and outputs of a shape that is small, as most boundary shapes of the catalogue are."""
PLANTINGS = 24
"""Draws of planted values that are looked through: enough to find three kinds in each of four inputs."""
PLACES = 3
"""Places at which each kind is tried: in some, a result depends on nothing."""

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class CaseVerdict:
    """Why an answer fails a case: the check's name, and what it says."""

    check: str
    reason: str


@dataclass(frozen=True)
class MutationCase:
    """One shape with one draw of inputs.

    Attributes:
        operator: The contract.
        graph: The reference at this shape.
        draw: Name of the draw.
        inputs: The inputs.
        reference: What is right, evaluated when it is first asked for.
    """

    operator: Operator
    graph: Graph
    draw: str
    inputs: Tensors
    reference: Expectation

    @classmethod
    def of(cls, operator: Operator, graph: Graph, draw_name: str, seed: str) -> "MutationCase":
        """Draw the inputs of a case."""
        inputs = draw(operator, graph.shape, draw_name, seed.encode())
        return cls(operator, graph, draw_name, inputs, Expectation(operator, graph, inputs, draw_name))

    def judge(self, outputs: Tensors) -> CaseVerdict | None:
        """Hold an answer against the table of checks, as a candidate's are; None if it passes."""
        check_results = CheckResults(CHECKS)
        evidence = CheckEvidence(
            operator=self.operator,
            shape=self.graph.shape,
            draw=self.draw,
            inputs=self.inputs,
            inputs_after=self.inputs,
            outputs=outputs,
            reference=self.reference,
        )
        if check_results.examine(evidence) is None:
            return None
        check = next(item.name for item in check_results.results() if item.verdict == "failed")
        return CaseVerdict(check, check_results.failure.reason if check_results.failure else "")


def telling_graphs(operator: Operator, graphs: Sequence[Graph]) -> list[Graph]:
    """Graphs to try, the most telling first; the smallest shape, at which much is right by chance, comes last.

    Held-out shapes are not among them, so that every search over an operator gets the same verdict. Where nothing is
    small, the smallest graph stands alone.
    """
    fixed = [graph for graph in graphs if graph.shape.role is not ShapeRole.HELD_OUT]
    fixed.sort(key=lambda graph: _elements(operator, graph))
    small = [graph for graph in fixed if is_small(operator, graph)][:MOST_SHAPES]
    return [*small[1:], *small[:1]] or fixed[:1]


def is_small(operator: Operator, graph: Graph) -> bool:
    """Whether a shape can be tried many times."""
    return _elements(operator, graph) <= SMALL_ELEMENTS


def _elements(operator: Operator, graph: Graph) -> int:
    """Elements of inputs and outputs."""
    inputs = sum(math.prod(operator.input_shape(item, graph.shape.dims)) for item in operator.given)
    return inputs + sum(map(math.prod, graph.output_shapes))


def cases_at(operator: Operator, graph: Graph, attempt: int) -> list[MutationCase]:
    """Every draw at one shape; every attempt draws other values."""
    return [MutationCase.of(operator, graph, name, _seed(operator, attempt)) for name in DRAWS]


def more_plantings(operator: Operator, graph: Graph) -> list[MutationCase]:
    """Cases with special values: every kind in every input that they reach, `PLACES` times."""
    met: Counter[tuple[tuple[int, int, int], ...]] = Counter()
    found = []
    for attempt in range(1, PLANTINGS):
        for name in PLANTED:
            case = MutationCase.of(operator, graph, name, _seed(operator, attempt))
            kinds = tuple(map(_kinds, case.inputs))
            met[kinds] += 1
            if met[kinds] <= PLACES:
                found.append(case)
    return found


def _kinds(tensor: torch.Tensor) -> tuple[int, int, int]:
    """How many NaN, Inf and -Inf there are."""
    if not tensor.is_floating_point():
        return (0, 0, 0)
    values = readable(tensor)
    return int(values.isnan().sum()), int(values.isposinf().sum()), int(values.isneginf().sum())


def _seed(operator: Operator, attempt: int) -> str:
    """Fixed, so that an operator gets the same verdict every time; candidates meet secret ones."""
    return f"gate:{operator.digest}:{attempt}"
