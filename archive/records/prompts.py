"""Records of prompts: what was asked of which model, what it answered, what it cost and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ExchangeState(StrEnum):
    """State of an exchange.

    ASKED: a backend was asked. WAITING: somebody has to claim and answer it; CLAIMED: somebody did claim it. REFUSED:
    the model would not answer. FAILED: no answer came; the same prompt may be asked again.
    """

    ASKED = "asked"
    WAITING = "waiting"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"


class ChargeState(StrEnum):
    """State of the money for one call.

    RESERVED: the call is on its way. SETTLED: paid, as far as is known. FREED: the call cost nothing. FORFEITED: what
    became of the call is unknown, so all that was reserved counts as spent.
    """

    RESERVED = "reserved"
    SETTLED = "settled"
    FREED = "freed"
    FORFEITED = "forfeited"


@dataclass(frozen=True, kw_only=True)
class _Question:
    """Fields of an exchange that are known before it is asked; see `NewExchange`."""

    id: str
    search: str
    ordinal: int
    step: int
    digest: str
    backend: str
    strategy: str
    template: str
    claims: Mapping[str, str]
    parents: tuple[str, ...]
    cell: int | None
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class NewExchange(_Question):
    """A prompt on its way to a backend.

    Attributes:
        id: UUIDv7.
        search: The search that asks.
        ordinal: Number of the proposal.
        step: Number of the prompt within the proposal.
        digest: Of the prompt; with search, ordinal and step it names the exchange.
        backend: Who is asked.
        strategy: What is tried.
        template: What the prompt was made from.
        claims: By statement of the prompt, the id of the job whose report it can be traced to.
        parents: Ids of the candidates that it shows.
        cell: The cell that is aimed at.
        max_tokens: Most tokens that the answer may take.
        system: The prompt's instructions.
        user: The prompt's request.
        state: ASKED, or WAITING where somebody has to claim it.
    """

    system: str
    user: str
    state: ExchangeState = ExchangeState.ASKED


@dataclass(frozen=True)
class LlmReply:
    """Answer of a model. `cost_usd` is None if unknown; `refused` if it would not answer, with the `reason`."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    truncated: bool = False
    refused: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ExchangeSummary(_Question):
    """A stored exchange without its texts. What was asked is as in `NewExchange`.

    Attributes:
        state: Where it is.
        reason: Why it failed or was refused.
        claimed_by: Who claimed it.
        lease_until: Until when the claim holds, UTC.
        model: The model that answered, as it names itself.
        input_tokens: Tokens of the prompt, as the vendor counts.
        output_tokens: Tokens of the answer.
        cost_usd: What it cost in US dollars, None if unknown.
        truncated: Whether the answer ran into `max_tokens`.
        outcome: What came of the answer, None before that is known.
        outcome_reason: In words.
        candidate: The candidate that was made of it.
        opened_at: When it was asked, UTC.
        answered_at: When the answer came, UTC.
        concluded_at: When its outcome was known, UTC.
    """

    state: ExchangeState
    reason: str
    claimed_by: str | None
    lease_until: datetime | None
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    truncated: bool
    outcome: str | None
    outcome_reason: str
    candidate: str | None
    opened_at: datetime
    answered_at: datetime | None
    concluded_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Exchange(ExchangeSummary):
    """A stored exchange with its texts: `system` and `user` of the prompt, and `text`, the answer, None before it."""

    system: str
    user: str
    text: str | None


@dataclass(frozen=True)
class SpendingLimits:
    """The most that may be spent; None for no limit. `usd` is in US dollars."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class NewCharge:
    """Maximum cost of one call, reserved before the call. `usd` is None if the price is unknown."""

    id: str
    exchange: str
    search: str
    backend: str
    strategy: str
    tokens: int
    usd: float | None


@dataclass(frozen=True)
class Charge(NewCharge):
    """A stored charge: what was reserved until it is settled, then what was spent."""

    state: ChargeState = ChargeState.RESERVED


@dataclass(frozen=True)
class BudgetRecord:
    """Spending of a search at one backend, reservations included; at all backends if `backend` is empty.

    Attributes:
        search: The search.
        backend: The backend, empty for the search as a whole.
        calls: Calls that were, or may have been, paid.
        tokens: Tokens of prompts and answers.
        usd: US dollars, as far as prices are known.
        unpriced: Calls whose price is unknown; `usd` says nothing of them.
        calls_limit: Most calls, None for no limit.
        tokens_limit: Most tokens.
        usd_limit: Most US dollars.
    """

    search: str
    backend: str
    calls: int
    tokens: int
    usd: float
    unpriced: int
    calls_limit: int | None
    tokens_limit: int | None
    usd_limit: float | None


@dataclass(frozen=True)
class StrategyStatsRecord:
    """Results of one strategy at one backend within one search.

    Attributes:
        search: The search.
        backend: Who was asked.
        strategy: How.
        calls: Calls that were, or may have been, paid.
        tokens: Tokens of prompts and answers.
        usd: US dollars, as far as prices are known.
        unpriced: Calls whose price is unknown.
        candidates: Answers that became a candidate.
        outcomes: How many answers came to each outcome.
    """

    search: str
    backend: str
    strategy: str
    calls: int
    tokens: int
    usd: float
    unpriced: int
    candidates: int
    outcomes: Mapping[str, int] = field(default_factory=dict)
