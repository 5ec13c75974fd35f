"""The emitter `rewrite`: one rule, sometimes two, applied to the parent's syntax tree."""

import random
from collections.abc import Iterator, Mapping
from typing import ClassVar

from service.emitters.base import Brief, Emitter, Proposal
from service.emitters.rules import RULES
from service.operators.sources import digest

JOINT = " + "
"""Between the names of rules in a note."""

SECOND_RULE = 0.3
"""How often a second rule follows the first: some pay only together."""


class Rewrite(Emitter):
    """Draws rules by how often their trials were correct here, so that one that never compiles is tried rarely."""

    name: ClassVar[str] = "rewrite"

    async def propose(self, brief: Brief) -> Proposal | None:
        """Rewrite the chosen parent, or None if no rule applies to it."""
        parent, rng = brief.parents[0], brief.rng
        weights, seen = rule_weights(brief), [digest(parent.source)]
        source, applied = parent.source, []
        for _ in range(1 + (rng.random() < SECOND_RULE)):
            if step := _step(source, weights, rng, seen):
                source = step[1]
                applied.append(step[0])
                seen.append(digest(source))
        if not applied:
            return None
        return Proposal(source, (parent.candidate,) if parent.candidate else (), JOINT.join(applied))


def rule_weights(brief: Brief) -> dict[str, float]:
    """How readily to draw each rule.

    The share of its trials that were correct, with one of two lent, so that every rule has a chance; less for each
    time that it was tried on this very parent.
    """
    counts, correct, here = dict.fromkeys(RULES, 2), dict.fromkeys(RULES, 1), dict.fromkeys(RULES, 0)
    for trial in brief.trials:
        for name in RULES.keys() & trial.note.split(JOINT):
            counts[name] += 1
            correct[name] += trial.outcome == "correct"
            here[name] += brief.parents[0].candidate in trial.parents
    return {name: correct[name] / counts[name] / (1 + here[name]) for name in RULES}


def _step(source: str, weights: Mapping[str, float], rng: random.Random, seen: list[str]) -> tuple[str, str] | None:
    """The first rule drawn that leads to something not seen yet, and what it makes of the source."""
    for name in _drawn(weights, rng):
        changed = RULES[name].rewrite(source, rng)
        if changed is not None and digest(changed) not in seen:
            return name, changed
    return None


def _drawn(weights: Mapping[str, float], rng: random.Random) -> Iterator[str]:
    """All names in a random order that favours the heavy ones."""
    left = list(weights)
    while left:
        (name,) = rng.choices(left, [weights[item] for item in left])
        left.remove(name)
        yield name
