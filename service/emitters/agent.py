"""The emitter `agent`: candidates that coding agents submit over REST, and agents that the service starts itself.

An agent works for minutes and submits several candidates. So a turn of this emitter is one run of a backend of the kind
`command`; without such a backend it takes no turns, and only receives.
"""

from typing import ClassVar

from service.emitters.base import ConversationTurn, Emitter, LlmContext, NoProposal, ProposalContext
from service.emitters.llm.rendering import advice
from service.llm.base import LlmPrompt, Purpose

NAME = "agent"
"""Name of the emitter; also the strategy of the exchanges of its agents."""
TEMPLATE = "agent 1"
"""Name and version of its prompt."""
HINT_CHARS = 2000
"""Maximum length of a hint, as requests allow it."""
NOTHING = "the agent submitted no kernel"
SYSTEM = """You are a kernel engineer. Make one GPU operator faster, with the tools of the MCP server `reef`.
SKILL.md in your folder explains the tools and the rules. Every kernel that you submit is judged by a strict oracle, and
only correct, faster ones count. Work in your folder only. Stop when you have no more ideas, or no more evaluations."""


class Agent(Emitter):
    """Receives candidates of agents, and starts the agents that a search names in `llm.agents`."""

    name: ClassVar[str] = NAME
    arity: ClassVar[int] = 1
    asks: ClassVar[bool] = True
    receives: ClassVar[bool] = True

    async def propose(self, context: ProposalContext) -> NoProposal | None:
        """Have an agent work on the operator; None if no agent may be started.

        Raises:
            BackendError: If the agent did not run.
        """
        llm = context.llm
        if llm is None or not llm.agents:
            return None
        backend = llm.begun[0] if llm.begun is not None else context.rng.choice(llm.agents)
        shown = tuple(parent.candidate for parent in context.parents if parent.candidate)
        purpose = Purpose(llm.search, llm.ordinal, 0, NAME, TEMPLATE, {}, shown, None)
        answer = await llm.ask(LlmPrompt(SYSTEM, _request(context, llm)), purpose, backend)
        submitted = await llm.tools.submitted(answer.exchange)
        turn = ConversationTurn(answer.exchange, submitted[-1] if submitted else None)
        return NoProposal((turn,), "" if submitted else "nothing_submitted", "" if submitted else NOTHING)


def _request(context: ProposalContext, llm: LlmContext) -> str:
    """Write the task: the operator, its target, the best kernel so far, and hints of people."""
    best = llm.best
    lines = [
        f"Operator: {context.operator['name']}, entry `{context.operator['entry']}`.",
        f"Search: {llm.search}. Device: {llm.device}, compiled for {context.target}.",
        "Times on a device `model:...` are predicted, not measured." if llm.device.startswith("model:") else "",
    ]
    if best is not None and best.objective is not None:
        lines.append(f"Best so far: candidate {best.candidate}, objective {best.objective:.3f}: {best.place}.")
    if context.parents and context.parents[0].candidate and context.parents[0] != best:
        lines.append(f"Another parent to start from: candidate {context.parents[0].candidate}.")
    if llm.hints:
        lines += ["Advice of the people who run this search:", *(advice(hint, HINT_CHARS) for hint in llm.hints)]
    return "\n".join(line for line in lines if line)
