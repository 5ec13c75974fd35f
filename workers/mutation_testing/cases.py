"""Cases for answers: small shapes with every draw of inputs, and the checks that candidates meet."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from workers.checks import CHECKS, CheckEvidence, CheckResults, Expectation
from workers.float8 import readable
from workers.inputs import DRAWS, PLANTED, draw
from workers.protocol import Graph, Operator, ShapeRole

MOST_SHAPES = 7
"""Maximum number of shapes: all boundary shapes of the catalogue, and a benchmark shape if it is small."""
SMALL_ELEMENTS = 2**17
"""Maximum elements of inputs and outputs of a small shape; most boundary shapes of the catalogue are small."""
SPREAD = 1.25
"""Elements of a shape that is tried, over those of the smallest: with large weights of fixed sizes no shape is small,
and in the smallest alone, such as one position for a softmax, much is right by chance."""
PLANTINGS = 24
"""Draws of planted values to search: enough to find three kinds in each of four inputs."""
PLACES = 3
"""Maximum number of cases per kind; several, because in some places no result depends on the planted value."""

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class CaseVerdict:
    """Failure of an answer in a case: the check's name and its reason."""

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
        reference: The right answer, evaluated at its first use.
        seed: Source of the inputs.
    """

    operator: Operator
    graph: Graph
    draw: str
    inputs: Tensors
    reference: Expectation
    seed: str = ""

    @classmethod
    def of(cls, operator: Operator, graph: Graph, draw_name: str, seed: str) -> "MutationCase":
        """Draw the inputs of a case."""
        inputs = draw(operator, graph.shape, draw_name, seed.encode())
        return cls(operator, graph, draw_name, inputs, Expectation(operator, graph, inputs, draw_name), seed)

    def judge(self, outputs: Tensors, answer: "CaseAnswer | None" = None) -> CaseVerdict | None:
        """Check an answer as a candidate's results are checked. Returns None if it passes.

        Args:
            outputs: The answer.
            answer: Gives the answer to other cases, on which a doubt is decided; without it, a doubt is a failure.
        """
        check_results = CheckResults(CHECKS)
        fresh = None if answer is None else lambda check, count: self._fresh(answer, count)
        if check_results.examine(self.evidence(outputs), fresh) is None:
            return (
                CaseVerdict(check_results.undecided, "it fails on other contents") if check_results.undecided else None
            )
        check = next(item.name for item in check_results.results() if item.verdict == "failed")
        return CaseVerdict(check, check_results.failure.reason if check_results.failure else "")

    def _fresh(self, answer: "CaseAnswer", count: int) -> Iterator[CheckEvidence]:
        """Yield evidence about the answer to other contents of this shape and draw."""
        for number in range(count):
            case = MutationCase.of(self.operator, self.graph, self.draw, f"{self.seed}:{number}")
            outputs = answer(case)
            if outputs is not None:
                yield case.evidence(outputs)

    def evidence(self, outputs: Tensors) -> CheckEvidence:
        """Return an answer as checks take it."""
        return CheckEvidence(
            operator=self.operator,
            shape=self.graph.shape,
            draw=self.draw,
            inputs=self.inputs,
            inputs_after=self.inputs,
            outputs=outputs,
            reference=self.reference,
        )


CaseAnswer: TypeAlias = Callable[[MutationCase], Tensors | None]
"""Function that answers a case; None if it cannot."""


def telling_graphs(operator: Operator, graphs: Sequence[Graph]) -> list[Graph]:
    """Return the graphs to try, the most telling first; the smallest, where much is right by chance, is last.

    Held-out shapes are excluded, so that every search over an operator gets the same verdict. If no graph is small, the
    result is those near the smallest.
    """
    fixed = [graph for graph in graphs if graph.shape.role is not ShapeRole.HELD_OUT and _has_results(graph)]
    fixed.sort(key=lambda graph: _elements(operator, graph))
    most = max([SMALL_ELEMENTS, *(SPREAD * _elements(operator, graph) for graph in fixed[:1])])
    small = [graph for graph in fixed if _elements(operator, graph) <= most][:MOST_SHAPES]
    return [*small[1:], *small[:1]]


def _has_results(graph: Graph) -> bool:
    """Return True if a result has elements; without any, all answers are right."""
    return any(map(math.prod, graph.output_shapes))


def is_small(operator: Operator, graph: Graph) -> bool:
    """Return True if a shape is small enough for many trials."""
    return _elements(operator, graph) <= SMALL_ELEMENTS


def _elements(operator: Operator, graph: Graph) -> int:
    """Return the number of elements of inputs and outputs."""
    inputs = sum(math.prod(operator.input_shape(item, graph.shape.dims)) for item in operator.given)
    return inputs + sum(map(math.prod, graph.output_shapes))


def cases_at(operator: Operator, graph: Graph, attempt: int) -> list[MutationCase]:
    """Return every draw at one shape; each attempt has other values."""
    return [MutationCase.of(operator, graph, name, _seed(operator, attempt)) for name in DRAWS]


def more_plantings(operator: Operator, graph: Graph) -> list[MutationCase]:
    """Return cases with special values: every kind in every input that allows it, `PLACES` times."""
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
    """Count NaN, Inf and -Inf."""
    if not tensor.is_floating_point():
        return (0, 0, 0)
    values = readable(tensor)
    return int(values.isnan().sum()), int(values.isposinf().sum()), int(values.isneginf().sum())


def _seed(operator: Operator, attempt: int) -> str:
    """Return a fixed seed, so that an operator always gets the same verdict; candidates meet secret seeds."""
    return f"gate:{operator.digest}:{attempt}"
