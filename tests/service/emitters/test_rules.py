"""Rules on each other's output, then other numbers: what comes out computes the same, and compiles."""

import random

import pytest

from benchmarks.forms import PREPARED
from service.emitters import EMITTERS, Brief, Parent
from service.emitters.rules import RULES
from service.judging.single import Judge
from service.operators.catalogue import load_operator
from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import ARGUMENTS, seed, small
from workers.protocol import Device, Outcome

QUICK = ("gelu", "swiglu", "rmsnorm", "softmax", "rope", "layernorm", "cross_entropy", "matmul", "attention")
"""Operators, those that are judged in seconds first."""

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


def judgeable(name):
    """The first operator with a seed that a rule applies to, and what the rule makes of it."""
    for operator in QUICK:
        source = seed(operator)
        for step in (*PREPARED.get(name, ()), name):
            source = source and RULES[step].rewrite(source, random.Random(1))
        if source:
            return operator, source
    raise AssertionError(f"no seed of the catalogue that {name} applies to")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("operator", QUICK)
async def test_every_rule_is_judged_correct_on_a_seed(operator, tmp_path):
    mine = {name: source for name in RULES for where, source in (judgeable(name),) if where == operator}
    outcomes = {}
    if mine:
        async with Judge(load_operator(operator), Device.parse("model:sm_90"), data=tmp_path) as judge:
            for name, source in mine.items():
                verdict = await judge.judge(source)
                outcomes[name] = (verdict.outcome, verdict.reason)
    assert outcomes == dict.fromkeys(mine, (Outcome.CORRECT, ""))
