"""Backend `anthropic`: Anthropic's Messages API, and servers compatible with it."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from service.llm.base import Backend, Completion, LlmPrompt, LlmRefused, TransientFailure
from service.llm.options import BackendContext, BackendOptions, HttpOptions, base_address
from service.llm.transport import Tokens, VendorClient, completion_of

VERSION = "2023-06-01"
"""API version sent with every request; the only stable one."""
CUT_SHORT = ("max_tokens", "model_context_window_exceeded")
"""Stop reasons of a truncated answer."""


class AnthropicOptions(HttpOptions):
    """Options of the backend; the base URL defaults to Anthropic's."""

    base_url: Annotated[str, AfterValidator(base_address)] = "https://api.anthropic.com"


class _Block(BaseModel):
    type: str
    text: str = ""


class _Usage(BaseModel):
    """Token counts; prompt tokens read from or written to the vendor's cache are counted separately."""

    input_tokens: Tokens
    output_tokens: Tokens
    cache_creation_input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None

    @property
    def prompt_tokens(self) -> int:
        """Number of all tokens of the prompt."""
        return self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)


class _Answer(BaseModel):
    """Fields of a response that are read; others are ignored."""

    content: list[_Block] = Field(max_length=1000)
    model: str = ""
    stop_reason: str | None = None
    usage: _Usage | None = None


class Anthropic(Backend):
    """Messages API: one message in, one out, not streamed."""

    kind: ClassVar[str] = "anthropic"
    options: ClassVar[type[BackendOptions]] = AnthropicOptions

    def __init__(self, options: AnthropicOptions, surroundings: BackendContext) -> None:
        self._options = options
        self._surroundings = surroundings
        key = surroundings.key
        secret = {"x-api-key": key.secret} if key else {}
        self._caller = VendorClient(options, key, {"anthropic-version": VERSION, **secret})

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend for the endpoint in its options."""
        assert isinstance(options, AnthropicOptions)
        return cls(options, surroundings)

    async def close(self) -> None:
        """Close every connection."""
        await self._caller.close()

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer one prompt.

        Raises:
            TransientFailure: As `VendorClient.post`, or if the response violates the protocol.
            PermanentFailure: As `VendorClient.post`.
            LlmRefused: As `VendorClient.post`, or if the model refused.
        """
        body = await self._caller.post("/v1/messages", self._body(prompt), key)
        try:
            answer = _Answer.model_validate(body)
        except ValidationError as error:
            place = ".".join(str(step) for step in error.errors()[0]["loc"])
            raise TransientFailure(f"the response is not a message: {place}", paid=True) from error
        usage = answer.usage
        completion = completion_of(
            prompt,
            self._surroundings,
            text="".join(block.text for block in answer.content if block.type == "text"),
            model=answer.model or self._options.model,
            tokens=(usage.prompt_tokens, usage.output_tokens) if usage else None,
            truncated=answer.stop_reason in CUT_SHORT,
        )
        if answer.stop_reason == "refusal":
            raise LlmRefused(f"the model refused to answer: {completion.text[:200]}", completion)
        return completion

    def _body(self, prompt: LlmPrompt) -> dict[str, Any]:
        messages = [{"role": "user", "content": prompt.user}]
        body = {"model": self._options.model, "max_tokens": prompt.max_tokens, "messages": messages}
        return {**body, **({"system": prompt.system} if prompt.system else {}), **self._options.extra}
