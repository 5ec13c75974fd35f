"""Backend `openai`: any endpoint with OpenAI's chat completions API, hosted or local."""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from service.llm.base import Backend, Completion, LlmPrompt, LlmRefused, TransientFailure
from service.llm.options import BackendContext, BackendOptions, HttpOptions
from service.llm.transport import Tokens, VendorClient, completion_of


class OpenaiOptions(HttpOptions):
    """Options; `max_tokens_field` is the request's field for the limit: some models want `max_completion_tokens`."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: Tokens
    completion_tokens: Tokens = 0


class _Answer(BaseModel):
    """Fields of a response that are read; others are ignored."""

    choices: list[_Choice] = Field(min_length=1)
    model: str = ""
    usage: _Usage | None = None


class Openai(Backend):
    """Chat completions: one message in, one out, not streamed."""

    kind: ClassVar[str] = "openai"
    options: ClassVar[type[BackendOptions]] = OpenaiOptions

    def __init__(self, options: OpenaiOptions, surroundings: BackendContext) -> None:
        self._options = options
        self._surroundings = surroundings
        key = surroundings.key
        self._caller = VendorClient(options, key, {"Authorization": f"Bearer {key.secret}"} if key else {})

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend for the endpoint in its options."""
        assert isinstance(options, OpenaiOptions)
        return cls(options, surroundings)

    async def close(self) -> None:
        """Close every connection."""
        await self._caller.close()

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer one prompt.

        Raises:
            TransientFailure: As `VendorClient.post`, or if the response violates the protocol.
            PermanentFailure: As `VendorClient.post`.
            LlmRefused: As `VendorClient.post`, or if the model or a filter refused.
        """
        body = await self._caller.post("/chat/completions", self._body(prompt), key)
        try:
            answer = _Answer.model_validate(body)
        except ValidationError as error:
            place = ".".join(str(step) for step in error.errors()[0]["loc"])
            raise TransientFailure(f"the response is not a chat completion: {place}", paid=True) from error
        choice, usage = answer.choices[0], answer.usage
        text = choice.message.content or ""
        completion = completion_of(
            prompt,
            self._surroundings,
            text=text or choice.message.refusal or "",
            model=answer.model or self._options.model,
            tokens=(usage.prompt_tokens, usage.completion_tokens) if usage else None,
            truncated=choice.finish_reason == "length",
        )
        if choice.finish_reason == "content_filter" or (choice.message.refusal and not text):
            raise LlmRefused(f"the model refused to answer: {completion.text[:200]}", completion)
        return completion

    def _body(self, prompt: LlmPrompt) -> dict[str, Any]:
        messages = [{"role": "user", "content": prompt.user}]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        limit: dict[str, Any] = {self._options.max_tokens_field: prompt.max_tokens}
        return {"model": self._options.model, "messages": messages, **limit, **self._options.extra}
