"""The emitter `tune`: other values for a parent's parameters, drawn at random first, then near the parent's."""

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
"""Probability of a random move after that."""

ATTEMPTS = 24
"""Moves drawn before all single steps are tried in turn."""

REMEMBERED = 256
"""Maximum number of sources with cached parameters, some hundred kilobytes each with their trees."""

Values = Mapping[str, int]
"""New values by name of the parameter."""


class Tune(Emitter):
    """Changes numbers only: launch options, extents of tiles, programs per multiprocessor."""

    name: ClassVar[str] = "tune"

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Change one or more parameters of the chosen parent; None if it has none or all moves were tried."""
        parent = context.parents[0]
        found = _relevant(parent, context.target)
        tried = {trial.note for trial in context.trials if not trial.parents or parent.candidate in trial.parents}
        for values in _moves(found, context):
            note = describe(found, values)
            if note and note not in tried:
                return _proposal(parent, context.target, values, note)
        return None

    def edits(self, context: ProposalContext) -> Sequence[Edit]:
        """List every other value of one parameter, and every pair of single steps."""
        found = _relevant(context.parents[0], context.target)
        single = [{item.name: value} for item in found for value in item.ladder if value != item.value]
        steps = [[(item.name, value) for value in item.neighbours] for item in found]
        double = [dict(pair) for one, two in combinations(steps, 2) for pair in product(one, two)]
        return [Edit(describe(found, values), (), values) for values in (*single, *double)]

    def apply(self, context: ProposalContext, edit: Edit) -> Proposal | None:
        """Write the parent with these values."""
        return _proposal(context.parents[0], context.target, edit.values, edit.note)


def _proposal(parent: Parent, target: str, values: Values, note: str) -> Proposal:
    source = write(parent.source, target, values)
    return Proposal(source, (parent.candidate,) if parent.candidate else (), note)


@lru_cache(REMEMBERED)
def read(source: str, target: str) -> Sequence[TunableParameter]:
    """Return the parameters of a source; none if it cannot be parsed and rendered. Only `write` may change them."""
    try:
        module = parse(source)
        found = parameters(module, target) if is_readable(module) else []
        render(module)
    except (SyntaxError, RecursionError):
        return ()
    return found


def _relevant(parent: Parent, target: str) -> Sequence[TunableParameter]:
    """Return the parameters of a parent but for those of kernels that no benchmark shape launches, if that is known."""
    found = read(parent.source, target)
    return [item for item in found if not (item.kernel and parent.launched) or item.kernel in parent.launched]


def write(source: str, target: str, values: Values) -> str:
    """Return the source with other values for some of its parameters.

    Raises:
        SyntaxError: If the source cannot be read.
    """
    module = parse(source)
    for item in parameters(module, target):
        if item.name in values:
            item.write(values[item.name])
    return render(module)


def describe(found: Sequence[TunableParameter], values: Values) -> str:
    """Describe the changes, such as `num_warps 8 -> 4; BLOCK 1024 -> 2048`; empty if there are none."""
    changes = [(item, values[item.name]) for item in found if values.get(item.name, item.value) != item.value]
    return "; ".join(f"{item.name} {'none' if item.value is None else item.value} -> {new}" for item, new in changes)


def _moves(found: Sequence[TunableParameter], context: ProposalContext) -> Iterator[Values]:
    """Yield changes to try in turn: random ones first, then every single step."""
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
