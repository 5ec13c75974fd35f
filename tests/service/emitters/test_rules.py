"""Rules on the whole catalogue, on each other's output, then other numbers: what comes out computes the same."""

import ast
import builtins
import random

import pytest

from service.emitters import EMITTERS, Parent, ProposalContext
from service.emitters.rules import RULES
from service.evaluation.single import Judge
from service.operators.catalogue import load_catalogue, load_operator
from service.operators.sources import LAUNCH_OPTIONS, digest, launches
from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import ARGUMENTS, seed, small
from workers.protocol import Device, Outcome
from workers.tracer.source import parse

CATALOGUE = load_catalogue()
QUICK = ("gelu", "swiglu", "rmsnorm", "softmax", "rope", "layernorm", "cross_entropy", "matmul", "attention")
QUICK = (*QUICK, "gated_linear_attention")
"""Operators, those that are judged in seconds first."""

TOO_MUCH = ("out of resource", "Insufficient registers")
"""A draw may ask for more than the device has: an outcome, and no fault of a rule."""

PREPARED = {
    "hoist_load": ("persistent",),
    "pipeline_pieces": ("persistent",),
    "warp_specialize": ("tensor_descriptors", "tensor_descriptors"),
    "whole_row": ("chunk_row",),
    "online_sum": ("chunk_row",),
}
"""What must have been done to a seed before a rule applies to it."""


def test_every_rule_applies_to_some_operator():
    found = set()
    for operator in CATALOGUE.values():
        for name in RULES:
            source = operator.seeds[0]
            for step in (*PREPARED.get(name, ()), name):
                source = RULES[step].rewrite(source, random.Random(1)) if source else None
            found |= {name} if source else set()
    assert found | ELSEWHERE == set(RULES) >= PREPARED.keys()


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
        proposal = await EMITTERS["tune"].propose(ProposalContext({}, "sm_90", (Parent("c", source),), (), rng))
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


def prepared(name, source):
    """The source as the rule needs it: after the rules that make its pattern, as far as they apply."""
    for step in PREPARED.get(name, ()):
        source = RULES[step].rewrite(source, random.Random(0)) or source
    return source


def unbound(module):
    """Names that a module's functions read and nobody binds."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in module.body if not isinstance(node, ast.FunctionDef)]
    known = {*dir(builtins), *(node.name for node in functions), *bound(others)}
    known |= {(alias.asname or alias.name).split(".")[0] for node in others for alias in getattr(node, "names", ())}
    return {name for function in functions for name in read(function) - bound([function]) - known}


def bound(nodes):
    below = [inner for node in nodes for inner in ast.walk(node)]
    stored = {node.id for node in below if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in below if isinstance(node, ast.FunctionDef)}
    return stored | defined | {node.arg for node in below if isinstance(node, ast.arg)}


def read(function):
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def passed_wrongly(module):
    """Kernels that are launched with other parameters than they have."""
    found = []
    for launch in launches(module):
        names = [item.arg for item in launch.kernel.args.args]
        needed = names[: len(names) - len(launch.kernel.args.defaults)]
        given = [*names[: len(launch.call.args)], *(launch.keywords.keys() - set(LAUNCH_OPTIONS))]
        many = len(launch.call.args) > len(names) or len(given) != len(set(given))
        if many or not set(needed) <= set(given) <= set(names):
            found.append(launch.kernel.name)
    return found


@pytest.mark.parametrize("operator", CATALOGUE)
def test_every_rule_leaves_every_seed_a_candidate(operator):
    applied = set()
    for source in CATALOGUE[operator].seeds:
        for name, rule in RULES.items():
            before = prepared(name, source)
            after = rule.rewrite(before, random.Random(0))
            if after is not None:
                applied.add(name)
                assert after == rule.rewrite(before, random.Random(0)), name
                assert digest(after) != digest(before), name
                parse(after)
                module = ast.parse(after)
                assert not unbound(module) and not passed_wrongly(module), name
    assert applied


ELSEWHERE = {"split_ahead"}
"""Rules that apply to no seed: no operator of the catalogue multiplies float32 matrices alone."""


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
    found = {name: judgeable(name) for name in RULES.keys() - ELSEWHERE}
    mine = {name: source for name, (where, source) in found.items() if where == operator}
    outcomes = {}
    if mine:
        async with Judge(load_operator(operator), Device.parse("model:sm_90"), data=tmp_path) as judge:
            for name, source in mine.items():
                verdict = await judge.judge(source)
                outcomes[name] = (verdict.outcome, verdict.reason)
    assert outcomes == dict.fromkeys(mine, (Outcome.CORRECT, ""))
