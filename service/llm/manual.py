"""Backend `manual`: prompts wait until a person or program claims and answers them. It needs no network."""

from typing import ClassVar, Self

from pydantic import Field

from service.llm.base import Backend, Completion, LlmPrompt, PermanentFailure
from service.llm.options import BackendContext, BackendOptions


class ManualOptions(BackendOptions):
    """Options; waiting costs nothing, so many prompts may wait."""

    max_concurrency: int = Field(default=1000, ge=1, le=10_000)


class Manual(Backend):
    """Backend whose answers come from people or programs, through the coordinator's archive."""

    kind: ClassVar[str] = "manual"
    options: ClassVar[type[BackendOptions]] = ManualOptions
    waits: ClassVar[bool] = True

    def __init__(self, surroundings: BackendContext) -> None:
        self._wait_for = surroundings.wait_for

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend that waits through its context."""
        return cls(surroundings)

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Wait for the answer to the exchange that `key` names.

        Raises:
            PermanentFailure: If there is no coordinator, which keeps the prompts.
            TransientFailure: If the prompt was withdrawn.
        """
        if self._wait_for is None:
            raise PermanentFailure("manual answers need a coordinator, which keeps the prompts")
        return await self._wait_for(key)
