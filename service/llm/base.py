"""The LLM backend socket: a prompt goes in, a completion comes out, with its tokens and cost.

Every vendor failure is one of three: transient (may succeed later), permanent (this backend is parked with the
reason), or refused (the model would not answer this prompt).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from service.errors import ServiceError


@dataclass(frozen=True)
class Prompt:
    """What is asked: instructions for the model, the request, and the most tokens that the answer may take."""

    system: str
    user: str
    max_tokens: int = 8192


@dataclass(frozen=True)
class Completion:
    """What came back. `cost_usd` is None where the price is unknown; `truncated` if it ran into `max_tokens`."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    truncated: bool = False


class BackendError(ServiceError):
    """Root of what a backend may raise."""


class TransientFailure(BackendError):
    """The same call may succeed later; `retry_after_s` if the vendor said when."""

    def __init__(self, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class PermanentFailure(BackendError):
    """No call to this backend can succeed until a person changes something."""


class Refused(BackendError):
    """The model would not answer this prompt; another prompt may do."""


class Backend(ABC):
    """One language model behind one interface.

    Attributes:
        kind: What `backends.toml` calls it; also its key in the table.
    """

    kind: ClassVar[str]

    @abstractmethod
    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt.

        Raises:
            TransientFailure: The same call may succeed later.
            PermanentFailure: No call can succeed until a person changes something.
            Refused: The model would not answer this prompt.
        """
