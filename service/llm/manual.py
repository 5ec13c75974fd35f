"""The backend `manual`: prompts wait until a person, or any program, claims and answers them. Needs no network."""

from typing import ClassVar, Self

from pydantic import Field

from service.llm.base import Backend, Completion, LlmPrompt, PermanentFailure
from service.llm.options import BackendContext, BackendOptions


class ManualOptions(BackendOptions):
    """A prompt that waits costs nothing, so many may."""

    max_concurrency: int = Field(default=1000, ge=1, le=10_000)


class Manual(Backend):
    """Answers that others give, through whatever keeps the prompts meanwhile."""

    kind: ClassVar[str] = "manual"
    options: ClassVar[type[BackendOptions]] = ManualOptions
    waits: ClassVar[bool] = True

    def __init__(self, surroundings: BackendContext) -> None:
        self._wait_for = surroundings.wait_for

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Make one that waits as its surroundings do."""
        return cls(surroundings)

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Wait for the answer to the exchange that `key` names.

        Raises:
            PermanentFailure: If nobody keeps prompts here.
            TransientFailure: If the prompt was withdrawn.
        """
        if self._wait_for is None:
            raise PermanentFailure("nobody keeps prompts here; manual answers need a coordinator")
        return await self._wait_for(key)
