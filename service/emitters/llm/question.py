"""One question to a model: the prompt rendered, and asked for its purpose."""

from collections.abc import Sequence

from service.emitters.base import LlmContext, ProposalContext
from service.emitters.llm.prompts import ToolFeedback, prompt
from service.emitters.llm.rendering import VERSION
from service.emitters.llm.strategies import Approach
from service.llm.base import LlmAnswer, LlmPrompt, Purpose


async def ask(
    context: ProposalContext,
    llm: LlmContext,
    found: Approach,
    *,
    turns: Sequence[ToolFeedback] = (),
    step: int = 0,
    steps: int = 1,
) -> LlmAnswer:
    """Ask what an approach has to ask, as step `step` of at most `steps`.

    Raises:
        BackendError: If no answer came.
    """
    rendered = prompt(context, llm, found, turns=turns, step=step, steps=steps)
    purpose = Purpose(
        search=llm.search,
        ordinal=llm.ordinal,
        step=step,
        strategy=found.strategy,
        template=f"{found.strategy}/{VERSION}",
        claims=rendered.claims,
        parents=tuple(parent.candidate for parent in found.parents if parent.candidate),
        cell=found.cell,
    )
    return await llm.ask(LlmPrompt(rendered.system, rendered.user), purpose, found.backend)
