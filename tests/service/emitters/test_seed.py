"""The emitter `seed` hands a draft on, once."""

import random

from service.emitters import ProposalContext
from service.emitters.seed import NOTE, Seed


def context(draft):
    return ProposalContext({}, "sm_90", (), (), random.Random(0), draft=draft)


async def test_a_draft_becomes_a_candidate_without_parents():
    proposal = await Seed().propose(context("def double(x):\n    return x\n"))
    assert (proposal.source, proposal.parents, proposal.note) == ("def double(x):\n    return x\n", (), NOTE)


async def test_no_draft_no_candidate():
    assert await Seed().propose(context("")) is None
