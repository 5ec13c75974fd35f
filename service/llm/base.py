"""LLM backend socket: a prompt goes in; a completion comes out, with its tokens and cost.

Every failure of a vendor is one of three: transient (may succeed later), permanent (the backend is disabled with the
reason), or refused (the model refused this prompt).
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol, Self

from service.errors import ServiceError
from service.llm.options import ANSWER_TOKENS, BackendContext, BackendOptions


@dataclass(frozen=True)
class LlmPrompt:
    """Prompt: instructions, the request, and the maximum tokens of the answer if the backend's options set none."""

    system: str
    user: str
    max_tokens: int = ANSWER_TOKENS


def digest(prompt: LlmPrompt) -> str:
    """Return the SHA-256 of all fields of a prompt."""
    return hashlib.sha256(json.dumps(asdict(prompt), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Completion:
    """Answer of a backend. `cost_usd` is None if the price is unknown; `truncated` is true if it hit `max_tokens`."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    truncated: bool = False


@dataclass(frozen=True)
class Purpose:
    """Purpose of a prompt: stored with the exchange, never sent to a backend.

    Attributes:
        search: Id of the search.
        ordinal: Number of the proposal that asks.
        step: Number of the prompt within that proposal, from 0.
        strategy: Name of the strategy, such as `improve` or `repair`.
        template: Name and version of the prompt's template.
        claims: For each statement of the prompt, by its key, the id of the job whose report supports it.
        parents: Ids of the candidates that the prompt shows.
        cell: Cell to aim at; None for any.
    """

    search: str
    ordinal: int
    step: int
    strategy: str
    template: str
    claims: Mapping[str, str]
    parents: tuple[str, ...]
    cell: int | None


@dataclass(frozen=True)
class LlmAnswer:
    """Completion, with its backend and the id of the stored exchange."""

    exchange: str
    backend: str
    completion: Completion


class BackendError(ServiceError):
    """Base class of everything that a backend may raise."""


class TransientFailure(BackendError):
    """Failure of a call that may succeed later; after `retry_after_s` if the vendor said when.

    `paid` is true if the vendor may charge for the call: it was sent, and its result is unknown. Such a call is not
    repeated for the same prompt.
    """

    def __init__(self, detail: str, retry_after_s: float | None = None, *, paid: bool = False) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.paid = paid


class SamePromptOpen(TransientFailure):
    """Failure of a prompt that another proposal of the search has open; a second answer would tell little more."""


class PermanentFailure(BackendError):
    """Failure of every call until a person changes something. `paid` as in `TransientFailure`.

    `rejection` is true if the vendor rejects the request in words that do not tell whether this prompt is the cause.
    """

    def __init__(self, detail: str, *, paid: bool = False, rejection: bool = False) -> None:
        super().__init__(detail)
        self.paid = paid
        self.rejection = rejection


class LlmRefused(BackendError):
    """Refusal of one prompt by the model. `completion` holds its text and cost, if it gave any."""

    def __init__(self, detail: str, completion: Completion | None = None) -> None:
        super().__init__(detail)
        self.completion = completion


class BudgetExhausted(BackendError):
    """Failure of a prompt that could cost more than the search may spend; no call was made."""


class Backend(ABC):
    """Interface to a language model.

    Attributes:
        kind: Its name in `backends.toml`, and its key in `BACKENDS`.
        options: Model of its options in `backends.toml`.
        waits: True if a person or program has to claim and answer its prompts, which takes minutes or days.
        submits: True if it is an agent, which submits candidates over REST by itself.
    """

    kind: ClassVar[str]
    options: ClassVar[type[BackendOptions]]
    waits: ClassVar[bool] = False
    submits: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend from its options and context, without calling anything."""

    @abstractmethod
    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer one prompt.

        Args:
            prompt: The prompt.
            key: Id of the exchange, equal for every repetition of the prompt.

        Raises:
            TransientFailure: The same call may succeed later.
            PermanentFailure: No call can succeed until a person changes something.
            LlmRefused: The model refused this prompt.
        """

    async def close(self) -> None:
        """Close connections."""
        return None


class LlmClient(Protocol):
    """Interface through which emitters ask models; `service.llm_gateway` adds budgets, limits and stored answers."""

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Get an answer to a prompt from a backend; from any that the search may use if None.

        A prompt of the same search, ordinal and step that was answered before gets the same answer at no cost.

        Raises:
            BudgetExhausted: The budget does not allow it.
            TransientFailure: No answer came, even after those repetitions that certainly cost nothing.
            PermanentFailure: The backend, or each of the search's backends, is disabled.
            LlmRefused: The model refused.
        """
        ...

    def available(self, backends: Sequence[str]) -> tuple[str, ...]:
        """Return those of some backends that take calls now."""
        ...

    def require_open(self, backends: Sequence[str]) -> None:
        """Check that one of some backends takes calls.

        Raises:
            PermanentFailure: If none does; says why, backend by backend.
        """
        ...
