"""The emitter `tune`: other values for a parent's parameters, drawn at random first, then near what did well."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import ClassVar

from service.emitters.base import Edit, Emitter, Parent, Proposal, ProposalContext
from service.emitters.parameters import TunableParameter, parameters
from service.emitters.rules.base import is_readable
from service.operators.sources import parse, render

DRAWS = 12
"""Trials in a search before refinement begins."""

WIDE_SHARE = 0.1
"""After that: how often a move is still drawn at random."""

ATTEMPTS = 24
"""Moves drawn before all neighbours are looked through for one that is new."""

REMEMBERED = 256
"""Sources whose parameters are remembered, some hundred kilobytes each with their trees: elites are parents often."""

Values = Mapping[str, int]
"""New values by name of the parameter."""


class Tune(Emitter):
    """Changes numbers only: launch options, extents of tiles, programs a multiprocessor."""

    name: ClassVar[str] = "tune"

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Change one or more parameters of the chosen parent, or None if it has none or all near it was tried."""
        parent = context.parents[0]
        found = read(parent.source, context.target)
        tried = {trial.note for trial in context.trials if not trial.parents or parent.candidate in trial.parents}
        for values in _moves(found, context):
            note = describe(found, values)
            if note and note not in tried:
                return _proposal(parent, context.target, values, note)
        return None

    def edits(self, context: ProposalContext) -> Sequence[Edit]:
        """Every other value of one parameter, and every two single steps."""
        found = read(context.parents[0].source, context.target)
        single = [{item.name: value} for item in found for value in item.ladder if value != item.value]
        steps = [[(item.name, value) for value in item.neighbours] for item in found]
        double = [dict(pair) for one, two in combinations(steps, 2) for pair in product(one, two)]
        return [Edit(describe(found, values), (), values) for values in (*single, *double)]

    def apply(self, context: ProposalContext, edit: Edit) -> Proposal | None:
        """The parent with these values."""
        return _proposal(context.parents[0], context.target, edit.values, edit.note)


def _proposal(parent: Parent, target: str, values: Values, note: str) -> Proposal:
    source = write(parent.source, target, values)
    return Proposal(source, (parent.candidate,) if parent.candidate else (), note)


@lru_cache(REMEMBERED)
def read(source: str, target: str) -> Sequence[TunableParameter]:
    """The parameters of a source; none if it cannot be read and written. They are for reading: `write` writes."""
    try:
        module = parse(source)
        found = parameters(module, target) if is_readable(module) else []
        render(module)
    except (SyntaxError, RecursionError):
        return ()
    return found


def write(source: str, target: str, values: Values) -> str:
    """The source with other values for some of its parameters.

    Raises:
        SyntaxError: If the source cannot be read.
    """
    module = parse(source)
    for item in parameters(module, target):
        if item.name in values:
            item.write(values[item.name])
    return render(module)


def describe(found: Sequence[TunableParameter], values: Values) -> str:
    """What changes, such as `num_warps 8 -> 4; BLOCK 1024 -> 2048`; empty if nothing does."""
    changes = [(item, values[item.name]) for item in found if values.get(item.name, item.value) != item.value]
    return "; ".join(f"{item.name} {'none' if item.value is None else item.value} -> {new}" for item, new in changes)


def _moves(found: Sequence[TunableParameter], context: ProposalContext) -> Iterator[Values]:
    """Changes to try in turn: drawn ones first, then every single step."""
    if not found:
        return
    rng = context.rng
    for _ in range(ATTEMPTS):
        if len(context.trials) < DRAWS or rng.random() < WIDE_SHARE:
            yield {item.name: rng.choice(item.ladder) for item in _some(found, 3, rng)}
        else:
            yield {item.name: rng.choice(item.neighbours) for item in _some(found, 2, rng) if item.neighbours}
    steps = [(item.name, value) for item in found for value in item.neighbours]
    yield from ({name: value} for name, value in rng.sample(steps, len(steps)))


def _some(found: Sequence[TunableParameter], most: int, rng: random.Random) -> list[TunableParameter]:
    return rng.sample(found, rng.randint(1, min(most, len(found))))
