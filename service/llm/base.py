"""The LLM backend socket: a prompt goes in, a completion comes out, with its tokens and cost.

Every vendor failure is one of three: transient (may succeed later), permanent (this backend is parked with the
reason), or refused (the model would not answer this prompt).
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol, Self

from service.errors import ServiceError
from service.llm.options import BackendContext, BackendOptions


@dataclass(frozen=True)
class LlmPrompt:
    """What is asked: instructions for the model, the request, and the most tokens that the answer may take."""

    system: str
    user: str
    max_tokens: int = 8192


def digest(prompt: LlmPrompt) -> str:
    """SHA-256 of everything that a prompt says."""
    return hashlib.sha256(json.dumps(asdict(prompt), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Completion:
    """What came back. `cost_usd` is None where the price is unknown; `truncated` if it ran into `max_tokens`."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    truncated: bool = False


@dataclass(frozen=True)
class Purpose:
    """What a prompt is for: kept with the exchange, never sent to a backend.

    Attributes:
        search: Id of the search.
        ordinal: Number of the proposal that asks.
        step: Number of the prompt within that proposal, from 0.
        strategy: What is tried, such as `improve` or `repair`.
        template: Name and version of the file that the prompt was made from.
        claims: By the key of each statement in the prompt, the id of the job whose report it can be traced to.
        parents: Ids of the candidates that the prompt shows.
        cell: The cell that is aimed at, None for any.
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
    """A completion, with the backend that gave it and the id of the stored exchange."""

    exchange: str
    backend: str
    completion: Completion


class BackendError(ServiceError):
    """Root of what a backend may raise."""


class TransientFailure(BackendError):
    """The same call may succeed later; `retry_after_s` if the vendor said when.

    `paid` says that the vendor may charge for the call all the same: it was sent, and what became of it is unknown.
    Such a call is not repeated for the same prompt.
    """

    def __init__(self, detail: str, retry_after_s: float | None = None, *, paid: bool = False) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.paid = paid


class PermanentFailure(BackendError):
    """No call to this backend can succeed until a person changes something. `paid` as in `TransientFailure`."""

    def __init__(self, detail: str, *, paid: bool = False) -> None:
        super().__init__(detail)
        self.paid = paid


class LlmRefused(BackendError):
    """The model would not answer this prompt; another prompt may do. `completion` holds what it said, and the cost."""

    def __init__(self, detail: str, completion: Completion | None = None) -> None:
        super().__init__(detail)
        self.completion = completion


class BudgetExhausted(BackendError):
    """The search may not spend what this prompt could cost; nothing was asked."""


class Backend(ABC):
    """One language model behind one interface.

    Attributes:
        kind: What `backends.toml` calls it; also its key in the table.
        options: What `backends.toml` may say of one.
        waits: Whether answers come from somebody who has to claim the prompt first, in minutes or days.
    """

    kind: ClassVar[str]
    options: ClassVar[type[BackendOptions]]
    waits: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Make one of its options and what it is given besides; nothing is called yet."""

    @abstractmethod
    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer one prompt.

        Args:
            prompt: What is asked.
            key: Names the exchange; the same whenever the same prompt is sent again.

        Raises:
            TransientFailure: The same call may succeed later.
            PermanentFailure: No call can succeed until a person changes something.
            LlmRefused: The model would not answer this prompt.
        """

    async def close(self) -> None:
        """Let go of connections."""
        return None


class LlmClient(Protocol):
    """How an emitter asks a model. Whoever implements it pays, limits and remembers; see `service.llm_gateway`."""

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Have a prompt answered by a backend, any that the search may use if none is named.

        A prompt of the same search, ordinal and step that was answered before gets the same answer, and costs nothing.

        Raises:
            BudgetExhausted: The budget does not allow it.
            TransientFailure: No answer came, after repetitions where these were sure to cost nothing.
            PermanentFailure: The backend is parked, or no backend is left that is not.
            LlmRefused: The model would not answer.
        """
        ...

    def available(self, backends: Sequence[str]) -> tuple[str, ...]:
        """Those of some backends that take calls now."""
        ...
