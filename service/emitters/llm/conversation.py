"""The agentic strategy: a model that looks things up and has kernels judged before it hands one in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.emitters.base import Brief, Parent, Proposal, Spent, Talk, Turn
from service.emitters.llm.answers import read_answer, said
from service.emitters.llm.asking import ask
from service.emitters.llm.faults import Fault, Unusable
from service.emitters.llm.fences import fences
from service.emitters.llm.prompts import Heard
from service.emitters.llm.strategies import AGENTIC, Approach

STEPS = 6
"""Most answers of one conversation: two looks, three attempts and a last one. Each is a call that is paid."""
CALLS = ("elites", "read", "judge", "propose")
"""What an answer may ask for."""


@dataclass
class _Desk:
    """Where a conversation stands: the kernel that edits refer to, what was heard, what was asked."""

    subject: Parent
    heard: list[Heard] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


async def converse(brief: Brief, talk: Talk, found: Approach) -> Proposal | Spent:
    """Let the model work until it hands in a kernel, or its answers are spent.

    Raises:
        BackendError: If it does not answer.
    """
    desk = _Desk(found.parents[0])
    while len(desk.turns) < STEPS:
        step = len(desk.turns)
        answer = await ask(brief, talk, found, turns=desk.heard, step=step, steps=STEPS)
        desk.turns.append(Turn(answer.exchange))
        try:
            call = read_call(answer.completion.text)
            done = await _serve(call, answer.completion.text, answer.completion.truncated, brief, desk)
        except Unusable as error:
            done = None
            heard = {"said": answer.completion.text, "heard": f"{error.fault.value}: {error.sentence}"}
            desk.heard.append(Heard("said", heard))
        if done is not None:
            return done
    tried = any(turn.candidate for turn in desk.turns)
    detail = "" if tried else f"no kernel was judged or handed in within {STEPS} answers"
    return Spent(tuple(desk.turns), "" if tried else Fault.STEPS_SPENT.value, detail)


def read_call(text: str) -> Mapping[str, Any]:
    """The one call of an answer; `propose` where it has none.

    Raises:
        Unusable: If there are several, or one that is unknown.
    """
    found = [call for block in fences(said(text)) if (call := _object(block.text)) and "call" in call]
    if len(found) > 1:
        raise Unusable(Fault.BAD_CALL, f"the answer makes {len(found)} calls; one is allowed")
    call = found[0] if found else {"call": "propose"}
    if not isinstance(call["call"], str) or call["call"] not in CALLS:
        raise Unusable(Fault.BAD_CALL, f"the call is none of {', '.join(CALLS)}")
    return call


async def _serve(
    call: Mapping[str, Any], text: str, truncated: bool, brief: Brief, desk: _Desk
) -> Proposal | Spent | None:
    """Do what an answer asks for; what the conversation came to, None while it goes on."""
    talk = brief.talk
    assert talk is not None
    if call["call"] == "elites":
        desk.heard.append(Heard("listed", {"kernels": await talk.desk.elites()}))
        return None
    if call["call"] == "read":
        number = call.get("candidate")
        kernel = await talk.desk.find(number) if type(number) is int and 0 <= number < 2**31 else None
        if kernel is None:
            raise Unusable(Fault.BAD_CALL, "the search has no candidate of that number")
        _show(desk, kernel, "read a kernel")
        return None
    entry = str(brief.operator["entry"])
    answered = read_answer(text, entry, desk.subject.source, truncated=truncated)
    parents = (desk.subject.candidate,) if desk.subject.candidate else ()
    if call["call"] == "propose":
        return Proposal(answered.source, parents, AGENTIC, tuple(desk.turns))
    judged = await talk.desk.judge(answered.source, parents, f"{AGENTIC}, answer {len(desk.turns)}")
    if judged is None:
        return Spent(tuple(desk.turns), Fault.STEPS_SPENT.value, "the search may judge no more candidates")
    desk.turns[-1] = Turn(desk.turns[-1].exchange, judged.candidate)
    _show(desk, judged, "had a kernel judged")
    return None


def _show(desk: _Desk, kernel: Parent, why: str) -> None:
    desk.subject = kernel
    desk.heard.append(Heard("shown", {"kernel": kernel, "why": why}))


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
