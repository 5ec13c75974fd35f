"""Backend `anthropic`: Anthropic's Messages API, and servers compatible with it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from service.llm.base import LlmPrompt
from service.llm.options import BackendOptions, HttpOptions, base_address
from service.llm.vendor import HttpBackend, RequestForm, unlike
from service.llm.vendor_reply import TokenCounts, VendorReply, count, items, mapping, texts, tokens_in, with_calls, word

VERSION = "2023-06-01"
"""API version sent with every request; the only stable one."""


class AnthropicOptions(HttpOptions):
    """Options of the backend; the base URL defaults to Anthropic's."""

    base_url: Annotated[str, AfterValidator(base_address)] = "https://api.anthropic.com"


class Anthropic(HttpBackend):
    """Messages API: one message in, one out."""

    kind: ClassVar[str] = "anthropic"
    options: ClassVar[type[BackendOptions]] = AnthropicOptions
    path: ClassVar[str] = "/v1/messages"
    limit_fields: ClassVar[tuple[str, ...]] = ("max_tokens",)
    fixed_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": VERSION}

    def authorized(self, secret: str) -> Mapping[str, str]:
        """Return the header that carries a key."""
        return {"x-api-key": secret}

    def body(self, prompt: LlmPrompt, form: RequestForm) -> dict[str, Any]:
        """Write the message of a request."""
        streamed = {"stream": True} if form.stream else {}
        apart = {"system": prompt.system} if prompt.system and form.system_role != "user" else {}
        said = f"{prompt.system}\n\n{prompt.user}" if prompt.system and not apart else prompt.user
        return {"messages": [{"role": "user", "content": said}], **apart, **streamed}

    def read(self, body: Mapping[str, Any]) -> VendorReply:
        """Read a message.

        Raises:
            TransientFailure: If it is none.
        """
        failure = body.get("error") or (body if body.get("type") == "error" else None)
        content, tokens = body.get("content"), _tokens(body)
        known = isinstance(content, list | str) or (tokens.answer is not None and body.get("type") == "message")
        if not failure and not known:
            raise unlike("a message", body, self._surroundings.key)
        calls = [mapping(block) for block in items(content) if word(mapping(block).get("type")).endswith("tool_use")]
        return VendorReply(
            text=with_calls(texts(content), [(word(call.get("name")), call.get("input")) for call in calls]),
            thoughts=texts(content, thoughts=True),
            model=word(body.get("model")),
            end=word(body.get("stop_reason")),
            tokens=tokens,
            failure=failure,
        )

    def assembled(self, events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Assemble the events of a stream. One that broke off before its end was cut."""
        whole: dict[str, Any] = {"content": [], "stop_reason": "incomplete"}
        blocks: dict[object, dict[str, Any]] = {}
        for event in events:
            delta = mapping(event.get("delta"))
            match event.get("type"):
                case "message_start":
                    whole = {**whole, **mapping(event.get("message")), "content": [], "stop_reason": "incomplete"}
                    whole["usage"] = {**mapping(whole.get("usage")), "output_tokens": None}  # not its last count
                case "content_block_start":
                    blocks[event.get("index")] = dict(mapping(event.get("content_block")))
                case "content_block_delta":
                    _add(blocks.setdefault(event.get("index"), {"type": "text"}), delta)
                case "message_delta":
                    whole["stop_reason"] = delta.get("stop_reason") or whole["stop_reason"]
                    counts = {name: number for name, number in mapping(event.get("usage")).items() if number}
                    whole["usage"] = {**mapping(whole.get("usage")), **counts}
                case "error":
                    whole["error"] = event.get("error") or event
        return {**whole, "content": list(blocks.values())}


def _tokens(body: Mapping[str, Any]) -> TokenCounts:
    """Read the usage of a message; prompt tokens read from or written to the vendor's cache are counted separately."""
    found, given = tokens_in(body), mapping(body.get("usage"))
    cached = sum(count(given.get(f"cache_{name}_input_tokens")) or 0 for name in ("creation", "read"))
    return found if found.prompt is None else TokenCounts(found.prompt + cached, found.answer)


def _add(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to a block of content."""
    for name, into in (("text", "text"), ("thinking", "thinking"), ("partial_json", "input")):
        if isinstance(delta.get(name), str):
            block[into] = word(block.get(into)) + delta[name]
