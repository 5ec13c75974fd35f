"""Trials: each answer is checked in the cases and gets a verdict."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from workers.checks.exact_integers import ExactIntegers
from workers.inputs import PLANTED
from workers.mutation_testing.answers import DEPENDENT, trivial_answers
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import CaseVerdict, MutationCase, Tensors
from workers.mutation_testing.equality import are_rounded_away, is_equal, is_identical
from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.mutants import Mutant, mutants_of
from workers.protocol import Graph, MutationEntry
from workers.reference import evaluate

MOST_MUTANTS = 512
"""Maximum number of mutants tried; references of the catalogue have under three hundred."""
UNFIT = (RuntimeError, IndexError, ValueError, TypeError)
"""Exceptions of the evaluation of a mutant whose change is meaningless."""

IsUp: TypeAlias = Callable[[], bool]
"""Function that returns True once the time is up."""
Trials: TypeAlias = Callable[[Sequence[ShapeFixture], IsUp], Iterator[MutationEntry]]
"""Function that tries answers of one kind until the time is up."""
Doubtful: TypeAlias = list[tuple[ShapeFixture, Graph, MutationCase]]
"""Graphs of a mutant by shape, each with a case where its results differ from the reference in any bit."""


class AnswerTally:
    """Count of one answer's cases and failures so far."""

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
        """Return the answer's row of the table."""
        check = self.first.check if self.first else None
        row = {"name": name, "kind": kind, "verdict": verdict, "check": check, "reason": reason}
        return MutationEntry.model_validate({**row, "cases": self.cases, "failures": self.failures})


def honest_entries(fixtures: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Try right answers: each must pass everywhere."""
    tallies: dict[str, AnswerTally] = {}
    for fixture, case in _until(is_up, fixtures):
        for name, answer in fixture.honest_answers(case).items():
            again = partial(_honest_again, fixture, name)
            tallies.setdefault(name, AnswerTally()).add(case.judge(answer, again))
    for name, tally in tallies.items():
        verdict = "rejected" if tally.failures else "passed"
        yield tally.entry(name, "honest", verdict, reason=tally.first.reason if tally.first else "")


def trivial_entries(fixtures: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Try answers without work: each must fail in some case.

    That NaN and infinities are missing in a result does not count: every such answer misses them, however small or
    meaningless other results may be. Integers and booleans made from planted values do count, as of `isfinite`. An
    answer made from a case's own inputs or results may be what the operator computes. It counts as equivalent if it is
    right in every bit everywhere. One that differs, but passed what there was time for, is untried: one case may be of
    a network at sizes at which its norms have nothing to compare.
    """
    tallies: dict[str, AnswerTally] = {}
    wrong: set[str] = set()
    left = sum(len(fixture.cases) for fixture in fixtures)
    for _, case in _until(is_up, fixtures):
        left -= 1
        for name, answer in trivial_answers(case):
            found = case.judge(answer)
            counts = case.draw not in PLANTED or _is_exact(found)
            tallies.setdefault(name, AnswerTally()).add(found if counts else None)
            if not is_identical(answer, case):
                wrong.add(name)
    for name, tally in tallies.items():
        right = name not in wrong and name.startswith(DEPENDENT)
        passed = "untried" if left and name in wrong else "equivalent" if right else "survived"
        yield tally.entry(name, "trivial", "killed" if tally.failures else passed)


def _is_exact(verdict: CaseVerdict | None) -> bool:
    """Return True if the failure is one of integers or booleans."""
    return verdict is not None and verdict.check == ExactIntegers.name


def _until(is_up: IsUp, fixtures: Sequence[ShapeFixture]) -> Iterator[tuple[ShapeFixture, MutationCase]]:
    """Yield the first round of cases until the time is up, but at least one."""
    first = True
    for fixture in fixtures:
        for case in fixture.cases:
            if not first and is_up():
                return
            first = False
            yield fixture, case


def _honest_again(fixture: ShapeFixture, name: str, case: MutationCase) -> Tensors:
    return fixture.honest_answers(case)[name]


def mutant_entries(fixtures: Sequence[ShapeFixture], is_up: IsUp) -> Iterator[MutationEntry]:
    """Try wrong implementations until their first failure: each must fail in some case, unless it is equivalent.

    The order is shuffled. So the mutants tried before the time is up are a fair sample, and so are the first
    `MOST_MUTANTS` of a very large reference.
    """
    places = places_of(fixtures)
    names = list(places)
    random.Random(0).shuffle(names)
    entries = {name: _tried(name, places[name], is_up) for name in names[:MOST_MUTANTS]}
    yield from (entry for name in places if (entry := entries.get(name)) is not None)


def places_of(fixtures: Sequence[ShapeFixture]) -> dict[str, list[tuple[ShapeFixture, Mutant]]]:
    """Return the mutants of all shapes by name."""
    places: dict[str, list[tuple[ShapeFixture, Mutant]]] = {}
    for fixture in fixtures:
        for mutant in mutants_of(fixture.operator, fixture.formulas):
            places.setdefault(mutant.name, []).append((fixture, mutant))
    return places


def _tried(name: str, places: Sequence[tuple[ShapeFixture, Mutant]], is_up: IsUp) -> MutationEntry | None:
    """Try a mutant. Returns None if the mutation applies nowhere, or is meaningless for some values."""
    rounds = places[0][1].rounds
    tally, doubtful = AnswerTally(), Doubtful()
    for fixture, graph, case in cases_of(places, is_up):
        outputs = outputs_of(graph, case)
        if outputs is None:
            return None
        same = is_identical(outputs, case)
        tally.add(None if same else case.judge(outputs, partial(outputs_of, graph)))
        if tally.failures:
            return tally.entry(name, "mutant", "killed")
        if not same:
            doubtful.append((fixture, graph, case))
    if is_up():
        return tally.entry(name, "mutant", "untried")
    return tally.entry(name, "mutant", verdict_on_survivor(doubtful, rounds=rounds)) if tally.cases else None


def cases_of(
    places: Sequence[tuple[ShapeFixture, Mutant]], is_up: IsUp
) -> Iterator[tuple[ShapeFixture, Graph, MutationCase]]:
    """Yield the cases of a mutant until the time is up, the first round at all shapes before the others."""
    fitting = []
    for fixture, mutant in places:
        graph = None if is_up() else _built(fixture, mutant)
        if graph is not None:
            fitting.append((fixture, graph))
            yield from ((fixture, graph, case) for case in fixture.cases if not is_up())
    for fixture, graph in fitting:
        yield from ((fixture, graph, case) for case in fixture.more_cases if not is_up())


def _built(fixture: ShapeFixture, mutant: Mutant) -> Graph | None:
    """Build the mutant's graph at a shape. Returns None if it does not apply, or its results are not comparable."""
    graph = mutant.build()
    if graph is None:
        return None
    case = fixture.cases[0]
    outputs = outputs_of(graph, case)
    if outputs is None:
        return None
    right = case.reference.native
    same = [(got.shape, got.dtype) for got in outputs] == [(item.shape, item.dtype) for item in right]
    return graph if same else None


def outputs_of(graph: Graph, case: MutationCase) -> Tensors | None:
    """Evaluate a mutant in a case. Returns None if that fails, as when a computed index is out of bounds."""
    try:
        return evaluate(graph, case.inputs, double=False)
    except UNFIT:
        return None


def verdict_on_survivor(doubtful: Doubtful, *, rounds: bool) -> str:
    """Return the verdict on a mutant that passes every check, from the cases where it differs from the reference."""
    if not doubtful or (not rounds and all(is_equal(graph, case) for _, graph, case in doubtful)):
        return "equivalent"
    found = (
        (TypedGraph.of(graph, fixture.cases[0].inputs), case, fixture.honest_errors(case))
        for fixture, graph, case in doubtful
    )
    return "within_rounding" if are_rounded_away(found, rounds=rounds) else "survived"
