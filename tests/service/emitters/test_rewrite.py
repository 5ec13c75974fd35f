import random
from collections import Counter

import pytest

from service.emitters.base import EmitterTrial, Parent, ProposalContext
from service.emitters.rewrite import JOINT, PATIENCE, Rewrite, rule_accounts
from service.emitters.rules import RULES
from tests.service.emitters.samples import seed


def context(source, draw=0, trials=()):
    return ProposalContext({}, "sm_90", (Parent("c0", source),), trials, random.Random(draw))


async def drawn(trials=(), draws=30):
    found = [await Rewrite().propose(context(seed("softmax"), draw, trials)) for draw in range(draws)]
    return Counter(name for proposal in found if proposal for name in proposal.note.split(JOINT))


async def test_notes_name_rules():
    counts = await drawn()
    assert counts.keys() <= RULES.keys()
    assert len(counts) > 8


async def test_sometimes_two_rules():
    found = [await Rewrite().propose(context(seed("softmax"), draw)) for draw in range(30)]
    double = [proposal for proposal in found if JOINT in proposal.note]
    assert 2 < len(double) < 20


async def test_a_rule_that_always_fails_rests_with_a_reason_and_comes_back():
    failures = tuple(EmitterTrial("backward", "compile_error", None, ("other",)) for _ in range(PATIENCE))
    assert (await drawn())["backward"] > 0
    assert (await drawn(failures))["backward"] == 0
    assert Rewrite().suspended(failures) == {"backward": "4 of 4 trials ended in compile_error"}
    assert Rewrite().suspended(failures[1:]) == {}
    assert Rewrite().suspended((*failures, EmitterTrial("backward", "wrong_result", None))) == {}


async def test_a_rule_that_brings_more_is_tried_more():
    paid = tuple(EmitterTrial("exp2", "correct", 2.0, ("other",), gain=1.0) for _ in range(8))
    idle = tuple(EmitterTrial(name, "correct", 1.0, ("other",)) for name in RULES if name != "exp2" for _ in range(8))
    assert (await drawn(paid + idle))["exp2"] > 2 * (await drawn())["exp2"]


async def test_what_was_tried_on_this_parent_comes_last():
    tried = tuple(EmitterTrial(name, "correct", 1.0, ("c0",)) for name in RULES if name != "limit_registers")
    found = [await Rewrite().propose(context(seed("softmax"), draw, tried)) for draw in range(8)]
    assert all(proposal.note.startswith("limit_registers") for proposal in found)


def test_accounts():
    trials = (
        EmitterTrial("exp2", "correct", 1.2, ("other",), gain=0.2),
        EmitterTrial("exp2 + backward", "correct", 1.2, ("other",), gain=0.1),
        EmitterTrial("backward", "compile_error", None, ("other",)),
        EmitterTrial("no rule at all", "correct", 1.0),
    )
    accounts = rule_accounts(trials)
    assert (accounts["exp2"].tries, accounts["exp2"].promotions) == (2, 2)
    assert (accounts["backward"].tries, accounts["backward"].gain) == (2, 0.1)
    assert accounts["chunk_row"].tries == 0
    assert accounts.keys() == RULES.keys()


async def test_no_rule_applies():
    assert await Rewrite().propose(context("def entry(x):\n    return x")) is None


def test_ways_are_rules_that_apply_and_do_not_rest():
    start = context(seed("softmax"))
    edits = Rewrite().edits(start)
    assert {edit.rules for edit in edits} == {(name,) for name, rule in RULES.items() if rule.applies(seed("softmax"))}
    for edit in edits:
        made = Rewrite().apply(start, edit)
        assert made is not None and made.note == edit.note and made.source != seed("softmax")
    failures = tuple(EmitterTrial("backward", "compile_error", None, ("other",)) for _ in range(PATIENCE))
    assert "backward" not in {edit.note for edit in Rewrite().edits(context(seed("softmax"), trials=failures))}
    assert Rewrite().apply(context("x = 1"), edits[0]) is None


@pytest.mark.parametrize(
    ("compilers", "offered"), [(("3.7",), True), (("3.8",), False), (("3.7", "3.10"), False), ((), False)]
)
async def test_a_rule_is_tried_only_where_every_compiler_of_the_search_knows_its_words(compilers, offered):
    parent = Parent("c0", seed("attention"))
    known = [
        ProposalContext({}, "sm_90", (parent,), (), random.Random(draw), compilers=compilers) for draw in range(60)
    ]
    assert any(edit.note == "block_pointers" for edit in Rewrite().edits(known[0])) is offered
    found = [await Rewrite().propose(context) for context in known]
    assert any("make_block_ptr" in proposal.source for proposal in found if proposal) is offered
