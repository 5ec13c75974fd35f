from service.emitters.llm.question import ask
from service.emitters.llm.rendering import VERSION
from service.emitters.llm.strategies import approach
from tests.service.emitters.talks import Scripted, context


async def test_a_question_says_what_it_is_for():
    script = Scripted(lambda prompt: "answer")
    known = context(answer=script, strategies=("explore",))
    answer = await ask(known, known.llm, approach(known, known.llm), step=2, steps=6)
    ((prompt, purpose, backend),) = script.asked
    assert (purpose.search, purpose.ordinal, purpose.step, purpose.strategy) == ("search-1", 7, 2, "explore")
    assert (purpose.template, purpose.cell, purpose.parents, backend) == (
        f"explore/{VERSION}",
        18,
        ("candidate-3",),
        "script",
    )
    assert purpose.claims["R1"] == "candidate-3:trace" and "# Request" in prompt.user
    assert answer.exchange == "exchange-7-2"


async def test_a_seed_that_is_no_candidate_is_not_named():
    script = Scripted(lambda prompt: "answer")
    known = context(answer=script, strategies=("improve",))
    lone = context(answer=script, parents=(known.parents[0].__class__("", "x = 1"),))
    await ask(lone, lone.llm, approach(lone, lone.llm))
    assert script.asked[0][1].parents == ()
