"""The emitter `agent`: a turn is one run of an agent, whose candidates come by another way."""

import dataclasses
import random

from service.emitters import EMITTERS, NoProposal, Parent, ProposalContext
from service.emitters.base import ConversationTurn
from tests.service.emitters.talks import CATALOGUE, Scripted, Shelf, llm, seed

OPERATOR = CATALOGUE["softmax"].model_dump(mode="json")


def context(kernels=(), agents=("robot",), **more):
    talk = dataclasses.replace(llm(), agents=agents, tools=Shelf(kernels), ask=Scripted(lambda prompt: "Done."), **more)
    return ProposalContext(OPERATOR, "sm_90", (Parent("", seed("softmax")),), (), random.Random(0), talk)


async def test_without_an_agent_it_takes_no_turn():
    assert await EMITTERS["agent"].propose(context(agents=())) is None


async def test_a_run_is_one_prompt_to_the_agent_and_its_last_candidate_is_the_result():
    talk = context([Parent("first", ""), Parent("last", "")], hints=("Rows fit into registers.",))
    said = await EMITTERS["agent"].propose(talk)
    ((prompt, purpose, backend),) = talk.llm.ask.asked
    assert (backend, purpose.strategy, purpose.search) == ("robot", "agent", talk.llm.search)
    assert "`softmax`" in prompt.user and "Rows fit into registers." in prompt.user
    assert said == NoProposal((ConversationTurn(f"exchange-{talk.llm.ordinal}-0", "last"),))


async def test_a_run_without_a_kernel_says_so():
    said = await EMITTERS["agent"].propose(context())
    assert (said.reason, said.detail) == ("nothing_submitted", "the agent submitted no kernel")


async def test_predicted_times_are_called_predicted():
    model, card = context(device="model:sm_90"), context(device="h100")
    await EMITTERS["agent"].propose(model)
    await EMITTERS["agent"].propose(card)
    assert "predicted, not measured" in model.llm.ask.asked[0][0].user
    assert "predicted" not in card.llm.ask.asked[0][0].user


async def test_a_resumed_run_goes_to_the_same_agent():
    talk = context(agents=("robot", "other"), begun=("other", "agent"))
    await EMITTERS["agent"].propose(talk)
    assert talk.llm.ask.asked[0][2] == "other"
