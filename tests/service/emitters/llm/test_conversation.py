import pytest

from service.emitters import NoProposal, Proposal
from service.emitters.base import ConversationTurn
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.conversation import STEPS, converse, read_call
from service.emitters.llm.strategies import AGENTIC, approach
from tests.service.emitters.talks import Scripted, Shelf, context, kernel, seed

FILE = f"```python\n{seed('rmsnorm')}MORE = 1\n```\n"
JUDGE, PROPOSE = '```json\n{"call": "judge"}\n```\n', '```json\n{"call": "propose"}\n```\n'


async def talked(answers, shelf=None):
    waiting = iter(answers)
    script = Scripted(lambda prompt: next(waiting))
    known = context(answer=script, strategies=(AGENTIC,), tools=shelf or Shelf())
    return await converse(known, known.llm, approach(known, known.llm)), script


async def test_a_kernel_is_looked_at_judged_and_handed_in():
    shelf = Shelf([kernel("rmsnorm", 5)], verdict=kernel("rmsnorm", 6, objective=1.5))
    calls = ['```json\n{"call": "elites"}\n```', '```json\n{"call": "read", "candidate": 5}\n```']
    edit = "<<<<<<< SEARCH\nMORE = 1\n=======\nMORE = 2\n>>>>>>> REPLACE\n"
    found, script = await talked([*calls, JUDGE + FILE, PROPOSE + edit], shelf)
    assert isinstance(found, Proposal) and found.source.endswith("MORE = 2\n") and found.note == AGENTIC
    assert found.turns == (
        ConversationTurn("exchange-7-0"),
        ConversationTurn("exchange-7-1"),
        ConversationTurn("exchange-7-2", "candidate-6"),
        ConversationTurn("exchange-7-3"),
    )
    assert found.parents == ("candidate-6",) and shelf.judged[0][1:] == (("candidate-5",), "agentic, answer 3")
    last = script.asked[-1][0].user
    assert "asked for the best kernels" in last and "read a kernel" in last and "1.500 times" in last


async def test_a_candidate_without_a_call_is_handed_in():
    found, _ = await talked([FILE])
    assert isinstance(found, Proposal) and len(found.turns) == 1


async def test_what_cannot_be_used_is_told_and_the_talk_goes_on():
    answers = [
        "Let me think.",
        '```json\n{"call": "dance"}\n```',
        '```json\n{"call": "read", "candidate": "x"}\n```',
        PROPOSE * 2,
        FILE,
    ]
    found, script = await talked(answers)
    assert isinstance(found, Proposal) and len(found.turns) == 5
    last = script.asked[-1][0].user
    assert (
        "no_code" in last
        and "none of elites, read" in last
        and "no candidate with that number" in last
        and "2 calls" in last
    )


async def test_the_answers_come_to_an_end():
    found, script = await talked(["hm"] * STEPS)
    assert (
        isinstance(found, NoProposal)
        and found.reason == "steps_spent"
        and len(found.turns) == len(script.asked) == STEPS
    )


async def test_kernels_that_were_judged_are_enough():
    found, _ = await talked([JUDGE + FILE] * STEPS, Shelf(verdict=kernel("rmsnorm", 6)))
    assert (
        isinstance(found, NoProposal)
        and found.reason == ""
        and {turn.candidate for turn in found.turns} == {"candidate-6"}
    )


async def test_a_search_that_may_judge_no_more_ends_the_talk():
    found, _ = await talked([JUDGE + FILE])
    assert isinstance(found, NoProposal) and "used all its evaluations" in found.detail


def test_a_call_is_one_object_in_a_fence():
    assert read_call("x")["call"] == "propose"
    assert read_call('```\n{"call": "read", "candidate": 3}\n```')["candidate"] == 3
    assert read_call('<think>\n```\n{"call": "dance"}\n```\n</think>x') == {"call": "propose"}
    with pytest.raises(UnusableAnswer):
        read_call('```\n{"call": ["judge"]}\n```')


@pytest.mark.parametrize("last", [PROPOSE, "Change: done.\n" + PROPOSE])
async def test_to_propose_without_a_candidate_hands_in_what_was_judged_last(last):
    shelf = Shelf(verdict=kernel("rmsnorm", 6))
    found, script = await talked([JUDGE + FILE, last], shelf)
    assert found == NoProposal(
        (ConversationTurn("exchange-7-0", "candidate-6"), ConversationTurn("exchange-7-1", "candidate-6"))
    )
    assert len(script.asked) == 2


@pytest.mark.parametrize("call", ["", PROPOSE])
async def test_a_kernel_without_marks_is_proposed_and_not_the_one_judged_before(call):
    shelf = Shelf(verdict=kernel("rmsnorm", 6))
    found, _ = await talked([JUDGE + FILE, f"{call}Change: more\n\n{seed('rmsnorm')}MORE = 3\n"], shelf)
    assert isinstance(found, Proposal) and found.source.endswith("MORE = 3\n")


async def test_to_propose_nothing_before_anything_was_judged_burns_the_answer():
    found, _ = await talked([PROPOSE, FILE])
    assert isinstance(found, Proposal) and len(found.turns) == 2
