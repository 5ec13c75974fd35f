"""Trials: one answer after another held against the cases, and what becomes of each."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from workers.inputs import PLANTED
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import CaseVerdict, MutationCase, Tensors
from workers.mutation_testing.equality import are_rounded_away, is_equal, is_identical
from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.honest import HONEST_ANSWERS, honest_graphs
from workers.mutation_testing.mutants import Mutant, mutants_of
from workers.mutation_testing.trivial import DEPENDENT, trivial_answers
from workers.protocol import Graph, MutationEntry
from workers.reference import evaluate

MOST_MUTANTS = 512
"""Mutants tried; references of the catalogue have under three hundred."""
UNFIT = (RuntimeError, IndexError, ValueError, TypeError)
"""What the evaluation of a mutant raises where its change makes no sense."""

IsUp: TypeAlias = Callable[[], bool]
"""Whether the time is up."""
Trials: TypeAlias = Callable[[Sequence[ShapeFixture], IsUp], Iterator[MutationEntry]]
"""Tries answers of one kind until the time is up."""
Doubtful: TypeAlias = list[tuple[ShapeFixture, Graph, MutationCase]]
"""A mutant's graph at a shape, and a case in which its results are not the reference's to the last bit."""


class AnswerTally:
    """What is known of one answer so far."""

    def __init__(self) -> None:
        self.cases = 0
        self.failures = 0
        self.first: CaseVerdict | None = None

    def add(self, verdict: CaseVerdict | None) -> None:
        """Count one case."""
        self.cases += 1
        if verdict is not None:
            self.failures += 1
            self.first = self.first or verdict

    def entry(self, name: str, kind: str, verdict: str, *, reason: str = "") -> MutationEntry:
        """The answer's row of the table."""
        check = self.first.check if self.first else None
        row = {"name": name, "kind": kind, "verdict": verdict, "check": check, "reason": reason}
        return MutationEntry.model_validate({**row, "cases": self.cases, "failures": self.failures})


def honest_entries(grounds: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Right answers: each must pass everywhere."""
    tallies: dict[str, AnswerTally] = {}
    for ground, case in _until(is_up, grounds):
        answers = {name: make(case) for name, make in HONEST_ANSWERS.items()}
        for name, graph in honest_graphs(ground.sketch, ground.formulas).items():
            answers[name] = evaluate(graph, case.inputs, double=False)
        _count(tallies, answers.items(), case)
    for name, tally in tallies.items():
        verdict = "rejected" if tally.failures else "passed"
        yield tally.entry(name, "honest", verdict, reason=tally.first.reason if tally.first else "")


def trivial_entries(grounds: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Answers without work: each must fail in some case.

    Planted values do not count: any of them is missed there, however small or meaningless other results may be. An
    answer that is made of a case's own inputs or results may be what the operator computes; it counts as equivalent if
    it is right to the last bit everywhere.
    """
    tallies: dict[str, AnswerTally] = {}
    wrong: set[str] = set()
    for _, case in _until(is_up, grounds):
        if case.draw in PLANTED:
            continue
        answers = dict(trivial_answers(case))
        _count(tallies, answers.items(), case)
        wrong |= {name for name, answer in answers.items() if not is_identical(answer, case)}
    for name, tally in tallies.items():
        right = name not in wrong and name.startswith(DEPENDENT)
        verdict = "killed" if tally.failures else "equivalent" if right else "survived"
        yield tally.entry(name, "trivial", verdict)


def _until(is_up: IsUp, grounds: Sequence[ShapeFixture]) -> Iterator[tuple[ShapeFixture, MutationCase]]:
    """The first round of cases, at least one of them."""
    first = True
    for ground in grounds:
        for case in ground.cases:
            if not first and is_up():
                return
            first = False
            yield ground, case


def _count(tallies: dict[str, AnswerTally], answers: Iterable[tuple[str, Tensors]], case: MutationCase) -> None:
    for name, answer in answers:
        tallies.setdefault(name, AnswerTally()).add(case.judge(answer))


def mutant_entries(grounds: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Wrong implementations: each must fail in some case, unless it is not wrong; it is let go at its first failure.

    They are tried in a shuffled order, so that those that there is time for are a fair sample, as are the first
    `MOST_MUTANTS` of a very large reference.
    """
    places: dict[str, list[tuple[ShapeFixture, Mutant]]] = {}
    for ground in grounds:
        for mutant in mutants_of(ground.operator, ground.formulas):
            places.setdefault(mutant.name, []).append((ground, mutant))
    names = list(places)
    random.Random(0).shuffle(names)
    entries = {name: _tried(name, places[name], is_up) for name in names[:MOST_MUTANTS]}
    yield from (entry for name in places if (entry := entries.get(name)) is not None)


def _tried(name: str, places: Sequence[tuple[ShapeFixture, Mutant]], is_up: IsUp) -> MutationEntry | None:
    """What becomes of a mutant; None where the mutation applies nowhere, or makes no sense for some values."""
    rounds = places[0][1].rounds
    tally, doubtful = AnswerTally(), Doubtful()
    for ground, graph, case in _cases(places, is_up):
        outputs = _outputs(graph, case)
        if outputs is None:
            return None
        same = is_identical(outputs, case)
        tally.add(None if same else case.judge(outputs))
        if tally.failures:
            return tally.entry(name, "mutant", "killed")
        if not same:
            doubtful.append((ground, graph, case))
    if is_up():
        return tally.entry(name, "mutant", "untried")
    return tally.entry(name, "mutant", _verdict_on_survivor(doubtful, rounds=rounds)) if tally.cases else None


def _cases(
    places: Sequence[tuple[ShapeFixture, Mutant]], is_up: IsUp
) -> Iterator[tuple[ShapeFixture, Graph, MutationCase]]:
    """Every case of a mutant until the time is up, the first round at all shapes before the others."""
    fitting = []
    for ground, mutant in places:
        graph = None if is_up() else _fitting(ground, mutant)
        if graph is not None:
            fitting.append((ground, graph))
            yield from ((ground, graph, case) for case in ground.cases if not is_up())
    for ground, graph in fitting:
        yield from ((ground, graph, case) for case in ground.more_cases if not is_up())


def _fitting(ground: ShapeFixture, mutant: Mutant) -> Graph | None:
    """The mutant's graph at a shape, if the mutation applies there and returns what can be compared at all."""
    graph = mutant.build()
    if graph is None:
        return None
    case = ground.cases[0]
    outputs = _outputs(graph, case)
    if outputs is None:
        return None
    right = case.reference.native
    same = [(got.shape, got.dtype) for got in outputs] == [(item.shape, item.dtype) for item in right]
    return graph if same else None


def _outputs(graph: Graph, case: MutationCase) -> Tensors | None:
    """What a mutant makes of a case; None if it cannot be evaluated: a computed index may be out of bounds."""
    try:
        return evaluate(graph, case.inputs, double=False)
    except UNFIT:
        return None


def _verdict_on_survivor(doubtful: Doubtful, *, rounds: bool) -> str:
    """What a mutant is that passes every check."""
    if not doubtful or (not rounds and all(is_equal(graph, case) for _, graph, case in doubtful)):
        return "equivalent"
    found = ((TypedGraph.of(graph, ground.cases[0].inputs), case) for ground, graph, case in doubtful)
    return "within_rounding" if are_rounded_away(found, rounds=rounds) else "survived"
