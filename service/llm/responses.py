"""Backend `responses`: OpenAI's Responses API, which some models need, and servers compatible with it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from service.llm.base import LlmPrompt
from service.llm.options import BackendOptions, HttpOptions
from service.llm.vendor import HttpBackend, RequestForm, unlike
from service.llm.vendor_reply import VendorReply, chat_tokens, items, mapping, texts, tool_text, word

ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
"""Events with the whole response."""


class ResponsesOptions(HttpOptions):
    """Options of the backend."""


class Responses(HttpBackend):
    """Responses API: one input in, one output out, nothing kept by the vendor."""

    kind: ClassVar[str] = "responses"
    options: ClassVar[type[BackendOptions]] = ResponsesOptions
    path: ClassVar[str] = "/responses"
    limit_fields: ClassVar[tuple[str, ...]] = ("max_output_tokens",)

    def body(self, prompt: LlmPrompt, form: RequestForm) -> dict[str, Any]:
        """Write the input and the instructions of a request."""
        streamed = {"stream": True} if form.stream else {}
        if not prompt.system or form.system_role == "user":
            said = f"{prompt.system}\n\n{prompt.user}" if prompt.system else prompt.user
            return {"input": said, "store": False, **streamed}
        return {"input": prompt.user, "instructions": prompt.system, "store": False, **streamed}

    def read(self, body: Mapping[str, Any]) -> VendorReply:
        """Read a response.

        Raises:
            TransientFailure: If it is none.
        """
        parts = [mapping(item) for item in items(body.get("output"))]
        if not parts and not any(body.get(name) for name in ("error", "output_text", "usage", "incomplete_details")):
            raise unlike("a response", body, self._surroundings.key)
        said = [part for part in parts if part.get("type") == "message"]
        contents = [mapping(content) for part in said for content in items(part.get("content"))]
        calls = [part for part in parts if word(part.get("type")).endswith("_call")]
        text = "".join(texts(part.get("content")) for part in said) or word(body.get("output_text"))
        cut = word(mapping(body.get("incomplete_details")).get("reason"))
        return VendorReply(
            text=text or tool_text([(word(c.get("name")), c.get("arguments", c.get("input"))) for c in calls]),
            thoughts="".join(texts(part, thoughts=True) for part in parts if part.get("type") == "reasoning"),
            model=word(body.get("model")),
            end=cut or ("incomplete" if body.get("status") == "incomplete" else ""),
            refusal="".join(word(content.get("refusal")) for content in contents),
            tokens=chat_tokens(body.get("usage")),
            failure=body.get("error"),
        )

    def assembled(self, events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Assemble a stream: its last event holds the whole response. Without one, the texts so far were cut."""
        for event in reversed(events):
            if event.get("type") in ENDED and isinstance(event.get("response"), dict):
                return mapping(event["response"])
            if event.get("type") == "error":
                return {"error": event.get("error") or event}
        text = "".join(
            word(event.get("delta")) for event in events if event.get("type") == "response.output_text.delta"
        )
        return {"output_text": text, "status": "incomplete", "incomplete_details": {"reason": "incomplete"}}
