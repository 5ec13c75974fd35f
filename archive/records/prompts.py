"""Records of prompts: questions to models, their answers, costs and outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ExchangeState(StrEnum):
    """State of an exchange.

    ASKED: a backend was asked. WAITING: a person has to claim and answer it. CLAIMED: a person has claimed it. REFUSED:
        the model refused to answer. FAILED: no answer came; the same prompt may be asked again.
    """

    ASKED = "asked"
    WAITING = "waiting"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"


class ChargeState(StrEnum):
    """State of the money for one call.

    RESERVED: the call is in progress. SETTLED: paid, as far as is known. FREED: the call cost nothing. FORFEITED: the
        result of the call is unknown, so the whole reservation counts as spent.
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
        digest: Digest of the prompt; with search, ordinal and step it is the key of the exchange.
        backend: Name of the backend that is asked.
        strategy: Name of the strategy.
        template: Template that the prompt was made from.
        claims: Id of the job whose report a statement of the prompt rests on, by statement.
        parents: Ids of the candidates in the prompt.
        cell: Index of the target cell.
        max_tokens: Maximum number of tokens in the answer.
        system: The prompt's instructions.
        user: The prompt's request.
        state: ASKED, or WAITING if a person has to claim it.
    """

    system: str
    user: str
    state: ExchangeState = ExchangeState.ASKED


@dataclass(frozen=True)
class LlmReply:
    """Answer of a model. `cost_usd` is None if unknown; a model that `refused` to answer gives the `reason`."""

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
    """A stored exchange without its texts. The other fields are as in `NewExchange`.

    Attributes:
        state: State of the exchange.
        reason: Reason of a failure or refusal.
        claimed_by: Name of the person who claimed it.
        lease_until: End of the claim's lease, UTC.
        model: The model that answered, as it names itself.
        input_tokens: Tokens of the prompt, as the vendor counts.
        output_tokens: Tokens of the answer.
        cost_usd: Cost in US dollars; None if unknown.
        truncated: True if the answer was cut off at `max_tokens`.
        outcome: Outcome of the answer; None before it is known.
        outcome_reason: Reason of the outcome.
        change: Model's own line on what it changed and why; empty if it gave none.
        candidate: Id of the candidate made from it.
        opened_at: Time of the question, UTC.
        answered_at: Time of the answer, UTC.
        concluded_at: Time of the outcome, UTC.
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
    change: str = ""
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
    """Maximum spending; None for no limit. `usd` is in US dollars."""

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
    """A stored charge: the reservation until it is settled, then the amount spent."""

    state: ChargeState = ChargeState.RESERVED


@dataclass(frozen=True)
class BudgetRecord:
    """Spending of a search at one backend, reservations included; at all backends if `backend` is empty.

    Attributes:
        search: The search.
        backend: The backend, empty for the search as a whole.
        calls: Number of calls that were, or may have been, paid.
        tokens: Number of tokens in prompts and answers.
        usd: US dollars, as far as prices are known.
        unpriced: Number of calls whose price is unknown; `usd` does not include them.
        calls_limit: Maximum number of calls; None for no limit.
        tokens_limit: Maximum number of tokens; None for no limit.
        usd_limit: Maximum of US dollars; None for no limit.
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
        backend: Name of the backend.
        strategy: Name of the strategy.
        calls: Number of calls that were, or may have been, paid.
        tokens: Number of tokens in prompts and answers.
        usd: US dollars, as far as prices are known.
        unpriced: Number of calls whose price is unknown.
        candidates: Number of answers that became a candidate.
        outcomes: Number of answers by outcome.
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
