"""What every emitter of the table must do."""

import ast
import random

import pytest

from service.emitters import EMITTERS, EmitterTrial, Parent, Proposal, ProposalContext
from service.emitters.tune import read, write
from service.operators.sources import digest
from tests.service.emitters.rules.test_contract import ODD_SOURCES
from tests.service.emitters.samples import ARGUMENTS, rewritten, seed
from tests.service.emitters.talks import CATALOGUE, llm

SOURCES = {operator: seed(operator) for operator in ARGUMENTS}
OPERATOR = CATALOGUE["rmsnorm"].model_dump(mode="json")
TRIALS = tuple(EmitterTrial("num_warps 8 -> 4", "correct", 1.1, ("parent",)) for _ in range(20))
CHANGING = [name for name, emitter in EMITTERS.items() if not emitter.proposes_draft and not emitter.receives]
"""Emitters that make candidates of others."""
SINGLE = [name for name in CHANGING if EMITTERS[name].arity == 1 or EMITTERS[name].asks]
"""Of these, those that one parent is enough for."""


def mate(source):
    """Another kernel of the same structure: with other numbers, and one more."""
    values = {item.name: item.neighbours[0] for item in read(source, "sm_90") if item.neighbours}
    return rewritten("limit_registers", write(source, "sm_90", values))


def context(*sources, draw=0, trials=(), target="sm_90"):
    parents = tuple(Parent(f"parent{number or ''}", source) for number, source in enumerate(sources))
    return ProposalContext(OPERATOR, target, parents, trials, random.Random(draw), llm())


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
async def test_proposals_are_new_readable_and_named(name, source):
    for draw in range(2):
        mates = [] if name in SINGLE else [mate(source)]
        proposal = await EMITTERS[name].propose(context(source, *mates, draw=draw))
        assert ast.parse(proposal.source)
        assert digest(proposal.source) != digest(source)
        assert sorted(proposal.parents) == ["parent", "parent1"][: 1 + len(mates)]
        assert proposal.note


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("trials", [(), TRIALS])
async def test_equal_briefs_give_equal_proposals(name, trials):
    first, second = [await EMITTERS[name].propose(context(seed("matmul"), draw=7, trials=trials)) for _ in range(2)]
    assert first == second


@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("source", ODD_SOURCES.values(), ids=ODD_SOURCES)
async def test_odd_parents_never_raise(name, source):
    proposal = await EMITTERS[name].propose(context(source, source, trials=TRIALS))
    assert not isinstance(proposal, Proposal) or ast.parse(proposal.source)


@pytest.mark.parametrize("name", SINGLE)
async def test_odd_notes_never_raise(name):
    trials = tuple(EmitterTrial(note, "correct", None) for note in ("", " + ", "; ->", "num_warps 8 ->", "\ud800"))
    assert await EMITTERS[name].propose(context(seed("gelu"), trials=trials))


@pytest.mark.parametrize("name", SINGLE)
async def test_a_seed_that_is_no_candidate_yet_is_no_parent(name):
    lone = ProposalContext(OPERATOR, "sm_90", (Parent("", seed("gelu")),), (), random.Random(0), llm())
    assert (await EMITTERS[name].propose(lone)).parents == ()


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "gfx942"])
@pytest.mark.parametrize("name", SINGLE)
async def test_every_target(name, target):
    assert await EMITTERS[name].propose(context(seed("rmsnorm"), target=target))


def test_names():
    assert all(
        emitter.name == name and emitter.arity >= (not emitter.proposes_draft) for name, emitter in EMITTERS.items()
    )


@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("source", ODD_SOURCES.values(), ids=ODD_SOURCES)
def test_ways_on_from_odd_parents_lead_to_readable_texts_or_nowhere(name, source):
    for edit in EMITTERS[name].edits(context(source))[:20]:
        proposal = EMITTERS[name].apply(context(source), edit)
        assert proposal is None or (ast.parse(proposal.source) and proposal.note == edit.note)
