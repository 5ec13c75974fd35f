"""The emitter `llm`: kernels written by language models, whose answers are untrusted data.

`strategies` chooses backend and strategy, `prompts` and `rendering` write the prompt, `answers` finds the candidate in
the answer. `conversation` is the strategy in which the model may use tools.
"""

import random
from dataclasses import replace
from typing import ClassVar

from service.emitters.base import ConversationTurn, Emitter, LlmContext, NoProposal, Proposal, ProposalContext
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import ParsedAnswer, change_of, read_answer
from service.emitters.llm.conversation import converse
from service.emitters.llm.prompts import ask
from service.emitters.llm.strategies import AGENTIC, EXPLORE, Approach, approach
from service.emitters.llm.templates import fan_out
from service.llm.base import SamePromptOpen
from service.operators.sources import digest
from workers.protocol.kernelbench import takes_module

__all__ = ["Llm"]


class Llm(Emitter):
    """Asks a language model, by the backend and the strategy that the bandit chooses from their statistics."""

    name: ClassVar[str] = "llm"
    arity: ClassVar[int] = 2
    asks: ClassVar[bool] = True

    async def propose(self, context: ProposalContext) -> Proposal | NoProposal | None:
        """Ask for a candidate; None if no backend or no strategy is possible.

        Raises:
            BackendError: If the model does not answer.
        """
        llm = context.llm
        if llm is None:
            return None
        left = llm.strategies
        while (found := approach(context, replace(llm, strategies=left))) is not None:
            try:
                return await self._answered(context, llm, found)
            except SamePromptOpen:
                left = tuple(name for name in left if name != found.strategy)
                if llm.begun is not None or not left:
                    raise
        return None

    async def _answered(self, context: ProposalContext, llm: LlmContext, found: Approach) -> Proposal | NoProposal:
        if found.strategy == AGENTIC:
            return await converse(context, llm, found)
        answer = await ask(context, llm, found)
        turn = ConversationTurn(answer.exchange)
        entry = str(context.operator["entry"])
        parent = found.parents[0].source if found.parents else None
        said = answer.completion
        try:
            as_module = takes_module(str(context.operator["reference"]))
            answered = read_answer(said.text, entry, parent, truncated=said.truncated, as_module=as_module)
            return _proposal(answered, found, turn, llm.most, change_of(said.text))
        except UnusableAnswer as error:
            return NoProposal((turn,), error.fault.value, error.sentence)


def _proposal(answered: ParsedAnswer, found: Approach, turn: ConversationTurn, most: int, change: str) -> Proposal:
    """Return the candidate of an answer, with its variations if it is a template."""
    parents = tuple(parent.candidate for parent in found.parents if parent.candidate)
    note = f"{EXPLORE} cell {found.cell}" if found.strategy == EXPLORE else found.strategy
    if answered.template is None:
        return Proposal(answered.source, parents, note, (turn,), (), turn.exchange, change)
    # The text seeds the draw, so that a resumed answer leads to the same candidates.
    first, *others = fan_out(answered.source, answered.template, most, random.Random(digest(answered.source)))
    variations = tuple(
        Proposal(source, parents, f"{note}: {words}", exchange=turn.exchange) for source, words in others
    )
    return Proposal(first[0], parents, f"{note}: {first[1]}", (turn,), variations, turn.exchange, change)
