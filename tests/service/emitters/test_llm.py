import dataclasses

import pytest

from service.emitters import EMITTERS, NoProposal, Proposal
from service.emitters.base import ConversationTurn
from service.emitters.llm.strategies import STRATEGIES
from service.llm import Completion
from tests.service.emitters.talks import Scripted, another, context, kernel, seed

LLM = EMITTERS["llm"]
EDIT = "<<<<<<< SEARCH\n    return y\n=======\n    z = y\n    return z\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_strategy_leads_to_a_candidate(strategy):
    script = Scripted(lambda prompt: another(prompt))
    found = await LLM.propose(context(answer=script, strategies=(strategy,)))
    assert isinstance(found, Proposal) and "def rmsnorm(" in found.source and found.note.startswith(strategy)
    assert found.turns == (ConversationTurn("exchange-7-0"),)


async def test_edits_apply_to_the_kernel_that_was_shown():
    found = await LLM.propose(context(answer=lambda prompt: EDIT))
    assert found.source == seed("rmsnorm").replace("return y", "z = y\n    return z") and found.parents == (
        "candidate-1",
    )


async def test_an_unusable_answer_is_spent_with_its_reason():
    found = await LLM.propose(context(answer=lambda prompt: "No idea."))
    assert found == NoProposal((ConversationTurn("exchange-7-0"),), "no_code", "the answer has no code block")


async def test_a_cut_answer_is_told_by_its_completion():
    found = await LLM.propose(context(answer=lambda prompt: Completion(EDIT, "m", 1, 1, None, truncated=True)))
    assert isinstance(found, NoProposal) and found.reason == "truncated"


async def test_a_template_brings_variations_that_an_equal_answer_brings_again():
    text = f'```python\nSIZE = 1\n{seed("rmsnorm")}```\n```json\n{{"parameters": {{"SIZE": {list(range(30))}}}}}\n```'
    known = context(answer=lambda prompt: text, strategies=("tune",), most=4, parents=(kernel("rmsnorm"),))
    first = await LLM.propose(known)
    again = await LLM.propose(dataclasses.replace(known, llm=dataclasses.replace(known.llm, begun=("script", "tune"))))
    assert first == again and len(first.variations) == 3
    assert first.note == "tune: SIZE = 1" and all(item.note.startswith("tune: SIZE = ") for item in first.variations)


async def test_without_a_talk_there_is_nobody_to_ask():
    assert await LLM.propose(dataclasses.replace(context(), llm=None)) is None
    assert await LLM.propose(context(backends=())) is None


async def test_the_cell_that_is_aimed_at_stands_in_the_note():
    assert (await LLM.propose(context(strategies=("explore",)))).note == "explore cell 18"
