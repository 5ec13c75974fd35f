"""Rules on each other's output, then other numbers: what comes out computes the same, and compiles."""

import random

import pytest

from service.emitters import EMITTERS, Brief, Parent
from service.emitters.rules import RULES
from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import ARGUMENTS, small

TOO_MUCH = ("out of resource", "Insufficient registers")
"""A draw may ask for more than the device has: an outcome, and no fault of a rule."""


def chain(source, rng):
    notes = []
    for _ in range(rng.randint(2, 5)):
        for name in rng.sample(list(RULES), len(RULES)):
            if (after := RULES[name].rewrite(source, rng)) is not None:
                source = after
                notes.append(name)
                break
    return source, notes


async def tuned(source, rng):
    """One proposal, without tiles so large that they take seconds to compile."""
    while True:
        proposal = await EMITTERS["tune"].propose(Brief({}, "sm_90", (Parent("c", source),), (), rng))
        if all(int(change.split(" -> ")[1]) <= 4096 for change in proposal.note.split("; ")):
            return proposal.source


@pytest.mark.parametrize("draw", range(40))
async def test_a_chain_of_rules_and_a_tuning(draw, assert_same, compiler):
    rng = random.Random(draw)
    operator = list(ARGUMENTS)[draw % len(ARGUMENTS)]
    before = LOOPED.get(operator) if draw % 2 else None
    source, notes = chain(before or small(operator), rng)
    if draw % 3:
        source = await tuned(source, rng)
    assert len(notes) > 1
    assert_same(before or small(operator), source, operator)
    error = compiler.ask(source, operator, sizes=((64, 128),), dtype="bfloat16").get("error", "")
    assert not error or any(reason in error for reason in TOO_MUCH), f"{notes}\n{error}\n{source}"
