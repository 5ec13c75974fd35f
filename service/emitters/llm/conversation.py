"""The agentic strategy: a language model may look kernels up and have some judged before it proposes one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.emitters.base import ConversationTurn, LlmContext, NoProposal, Parent, Proposal, ProposalContext
from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.answers import change_of, read_answer, said
from service.emitters.llm.edits import has_edits
from service.emitters.llm.fences import fences
from service.emitters.llm.prompts import ToolFeedback, ask
from service.emitters.llm.strategies import AGENTIC, Approach
from service.emitters.llm.templates import json_object
from service.emitters.llm.unfenced import is_code, readings
from workers.protocol.kernelbench import takes_module

STEPS = 6
"""Maximum number of answers in one conversation: two look-ups, three attempts and a last one. Each is a paid call."""
CALLS = ("elites", "read", "judge", "propose")
"""Names of the calls that an answer may make."""


@dataclass
class _ConversationState:
    """State of a conversation: the kernel that edits refer to, the one judged last, the feedback, the exchanges."""

    subject: Parent
    judged: Parent | None = None
    heard: list[ToolFeedback] = field(default_factory=list)
    turns: list[ConversationTurn] = field(default_factory=list)


async def converse(context: ProposalContext, llm: LlmContext, found: Approach) -> Proposal | NoProposal:
    """Run the conversation until the model proposes a kernel or its answers are used up.

    Raises:
        BackendError: If the model does not answer.
    """
    state = _ConversationState(found.parents[0])
    while len(state.turns) < STEPS:
        step = len(state.turns)
        answer = await ask(context, llm, found, turns=state.heard, step=step, steps=STEPS)
        state.turns.append(ConversationTurn(answer.exchange))
        try:
            call = read_call(answer.completion.text, truncated=answer.completion.truncated)
            done = await _serve(call, answer.completion.text, answer.completion.truncated, context, state)
        except UnusableAnswer as error:
            done = None
            heard = {"said": answer.completion.text, "heard": f"{error.fault.value}: {error.sentence}"}
            state.heard.append(ToolFeedback("said", heard))
        if done is not None:
            return done
    tried = any(turn.candidate for turn in state.turns)
    detail = "" if tried else f"no kernel was judged or proposed within {STEPS} answers"
    return NoProposal(tuple(state.turns), "" if tried else AnswerFault.STEPS_SPENT.value, detail)


def read_call(text: str, *, truncated: bool = False) -> Mapping[str, Any]:
    """Return the one call of an answer; `propose` if it has none.

    Raises:
        UnusableAnswer: If there are several, or an unknown one.
    """
    found = [
        call
        for block in fences(said(text, truncated=truncated))
        if (call := json_object(block.text)) and "call" in call
    ]
    if len(found) > 1:
        raise UnusableAnswer(AnswerFault.BAD_CALL, f"the answer makes {len(found)} calls; one is allowed")
    call = found[0] if found else {"call": "propose"}
    if not isinstance(call["call"], str) or call["call"] not in CALLS:
        raise UnusableAnswer(AnswerFault.BAD_CALL, f"the call is none of {', '.join(CALLS)}")
    return call


async def _serve(
    call: Mapping[str, Any], text: str, truncated: bool, context: ProposalContext, state: _ConversationState
) -> Proposal | NoProposal | None:
    """Serve the call of an answer. Returns the result of the conversation, None while it goes on."""
    llm = context.llm
    assert llm is not None
    if call["call"] == "elites":
        state.heard.append(ToolFeedback("listed", {"kernels": await llm.tools.elites()}))
        return None
    if call["call"] == "read":
        number = call.get("candidate")
        kernel = await llm.tools.find(number) if type(number) is int and 0 <= number < 2**31 else None
        if kernel is None:
            raise UnusableAnswer(AnswerFault.BAD_CALL, "the search has no candidate with that number")
        _show(state, kernel, "read a kernel")
        return None
    entry = str(context.operator["entry"])
    if call["call"] == "propose" and state.judged is not None and not _has_candidate(text):
        state.turns[-1] = ConversationTurn(state.turns[-1].exchange, state.judged.candidate)
        return NoProposal(tuple(state.turns))
    as_module = takes_module(str(context.operator["reference"]))
    answered = read_answer(text, entry, state.subject.source, truncated=truncated, as_module=as_module)
    parents = (state.subject.candidate,) if state.subject.candidate else ()
    if call["call"] == "propose":
        last = state.turns[-1].exchange
        return Proposal(answered.source, parents, AGENTIC, tuple(state.turns), (), last, change_of(text))
    judged = await llm.tools.judge(answered.source, parents, f"{AGENTIC}, answer {len(state.turns)}")
    if judged is None:
        return NoProposal(tuple(state.turns), AnswerFault.STEPS_SPENT.value, "the search has used all its evaluations")
    state.turns[-1] = ConversationTurn(state.turns[-1].exchange, judged.candidate)
    state.judged = judged
    _show(state, judged, "had a kernel judged")
    return None


def _has_candidate(text: str) -> bool:
    """Return True if an answer holds anything beside its call that may be a candidate."""
    spoken = said(text)
    if has_edits(spoken) or any("call" not in json_object(block.text) for block in fences(spoken)):
        return True
    return any(is_code(block.text) for each in readings(spoken) for block in fences(each))


def _show(state: _ConversationState, kernel: Parent, why: str) -> None:
    state.subject = kernel
    state.heard.append(ToolFeedback("shown", {"kernel": kernel, "why": why}))
