"""Pages of prompts to language models: prompts, answers, and forms to answer by hand."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Response

from archive.records import Exchange, ExchangeState, ExchangeSummary, LlmReply
from service.api.dependencies import Caller, Id, Running, needs
from service.api.paging import ID
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, Sent, pages, see_other
from service.errors import InvalidInput
from service.llm_gateway.schemas import LEASE_S
from service.security.authentication import utc_now
from service.security.scopes import Scope

router = pages()

SHOWN = 50
"""Number of prompts on one page."""
BY_HAND = "by hand"
"""Model name of an answer that a person gave here."""
MOST_CHARS = 200_000
"""Maximum length of an answer: a source may have 64 KiB, and people write text around it."""
ANSWERABLE = (ExchangeState.WAITING, ExchangeState.CLAIMED)


@dataclass(frozen=True)
class PromptList(HtmlPage):
    """Prompts, newest first."""

    template = "prompts.html"
    section = "/prompts"
    heading = "Prompts"

    prompts: tuple[ExchangeSummary, ...]
    states: tuple[str, ...]
    state: str | None
    older: str | None
    newest: bool


@dataclass(frozen=True)
class PromptPage(HtmlPage):
    """One prompt with its answer, or a form to give one.

    Attributes:
        prompt: The prompt with its texts.
        answerable: True if the prompt waits for an answer.
        held: True if the caller has claimed it.
        held_by_other: True if another person has claimed it and may still answer.
    """

    template = "prompt.html"
    section = "/prompts"

    prompt: Exchange
    answerable: bool
    held: bool
    held_by_other: bool

    @property
    def title(self) -> str:
        """Number of the proposal and of the step within it."""
        return f"Prompt {self.prompt.ordinal}.{self.prompt.step}"


@router.get("/prompts", dependencies=[needs(Scope.READ)])
async def find(
    running: Running,
    frame: Framed,
    state: str = "",
    before: Annotated[str | None, Query(pattern=f"^{ID.pattern}$")] = None,
) -> Response:
    """List prompts, optionally in one state only."""
    if state and state not in list(ExchangeState):
        raise InvalidInput(f"'{state}' is not one of: {', '.join(ExchangeState)}", "state")
    wanted = ExchangeState(state) if state else None
    found = await running.store.exchanges.list(state=wanted, limit=SHOWN + 1, beyond=before)
    page = PromptList(
        prompts=tuple(found[:SHOWN]),
        states=tuple(each.value for each in ExchangeState),
        state=state or None,
        older=found[SHOWN - 1].id if len(found) > SHOWN else None,
        newest=before is None,
    )
    return respond(page, frame)


@router.get("/prompts/{id}", dependencies=[needs(Scope.READ)])
async def show(id: Id, running: Running, frame: Framed, caller: Caller) -> Response:
    """Show a prompt and its answer."""
    prompt = await running.store.exchanges.get(id)
    claimed = prompt.state is ExchangeState.CLAIMED and (prompt.lease_until or utc_now()) > utc_now()
    mine = claimed and prompt.claimed_by == caller.name
    return respond(PromptPage(prompt, prompt.state in ANSWERABLE, mine, claimed and not mine), frame)


@router.post("/prompts/{id}/claim", dependencies=[needs(Scope.STEER)])
async def claim(id: Id, running: Running, caller: Caller) -> Response:
    """Claim a prompt, so that no other person does the same work."""
    await running.llm_gateway.manual.claim(id, caller.name, LEASE_S)
    return see_other(f"/prompts/{id}")


@router.post("/prompts/{id}/release", dependencies=[needs(Scope.STEER)])
async def release(id: Id, running: Running, caller: Caller) -> Response:
    """Release a claimed prompt."""
    await running.llm_gateway.manual.release(id, caller.name)
    return see_other(f"/prompts/{id}")


@router.post("/prompts/{id}/answer", dependencies=[needs(Scope.STEER)])
async def answer(id: Id, running: Running, caller: Caller, sent: Sent) -> Response:
    """Answer a prompt by hand."""
    text = sent.whole("text")
    if not text.strip() or len(text) > MOST_CHARS:
        raise InvalidInput(f"write an answer of 1 to {MOST_CHARS} characters", "text")
    reply = LlmReply(text=text, model=BY_HAND, input_tokens=0, output_tokens=0, cost_usd=0.0)
    await running.llm_gateway.manual.answer(id, caller.name, reply)
    return see_other(f"/prompts/{id}")
