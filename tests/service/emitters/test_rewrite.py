import random
from collections import Counter

from service.emitters.base import Brief, Parent, Trial
from service.emitters.rewrite import JOINT, Rewrite, rule_weights
from service.emitters.rules import RULES
from tests.service.emitters.samples import seed


def brief(source, draw=0, trials=()):
    return Brief({}, "sm_90", (Parent("c0", source),), trials, random.Random(draw))


async def drawn(trials=(), draws=30):
    found = [await Rewrite().propose(brief(seed("softmax"), draw, trials)) for draw in range(draws)]
    return Counter(name for proposal in found if proposal for name in proposal.note.split(JOINT))


async def test_notes_name_rules():
    counts = await drawn()
    assert counts.keys() <= RULES.keys()
    assert len(counts) > 8


async def test_sometimes_two_rules():
    found = [await Rewrite().propose(brief(seed("softmax"), draw)) for draw in range(30)]
    double = [proposal for proposal in found if JOINT in proposal.note]
    assert 2 < len(double) < 20


async def test_a_rule_that_always_fails_is_tried_rarely():
    failures = tuple(Trial("backward", "compile_error", None, ("other",)) for _ in range(30))
    assert (await drawn(failures))["backward"] < (await drawn())["backward"]


def test_weights():
    trials = (
        Trial("exp2", "correct", 1.2, ("other",)),
        Trial("exp2 + backward", "correct", 1.2, ("other",)),
        Trial("backward", "compile_error", None, ("other",)),
        Trial("persistent", "correct", 1.0, ("c0",)),
        Trial("no rule at all", "correct", 1.0),
    )
    weights = rule_weights(brief("", trials=trials))
    assert weights["exp2"] == 3 / 4
    assert weights["backward"] == 2 / 4
    assert weights["persistent"] == 2 / 3 / 2
    assert weights["chunk_row"] == 1 / 2
    assert weights.keys() == RULES.keys()


async def test_no_rule_applies():
    assert await Rewrite().propose(brief("def entry(x):\n    return x")) is None
