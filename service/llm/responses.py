"""Backend `responses`: OpenAI's Responses API, which some models need, and servers compatible with it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from service.llm.base import LlmPrompt
from service.llm.options import BackendOptions, HttpOptions
from service.llm.vendor import HttpBackend, RequestForm, unlike
from service.llm.vendor_reply import VendorReply, items, joined, mapping, texts, tokens_in, with_calls, word

ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
"""Events with the whole response."""
WITHOUT_ANSWER = ("failed", "cancelled", "queued", "in_progress")
"""States of responses that hold no answer."""


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
        failure, state = body.get("error"), word(body.get("status"))
        failure = failure or ({"message": f"its status is {state}"} if state in WITHOUT_ANSWER else None)
        if not (parts or failure or any(body.get(name) for name in ("output_text", "usage", "incomplete_details"))):
            raise unlike("a response", body, self._surroundings.key)
        said = [part for part in parts if part.get("type") == "message"]
        said = said or [{"content": [part for part in parts if part.get("type") == "output_text"]}]
        contents = [mapping(content) for part in said for content in items(part.get("content"))]
        calls = [part for part in parts if word(part.get("type")).endswith("_call")]
        text = joined([texts(part.get("content")) for part in said]) or word(body.get("output_text"))
        cut = word(mapping(body.get("incomplete_details")).get("reason"))
        return VendorReply(
            text=with_calls(text, [(word(c.get("name")), c.get("arguments", c.get("input"))) for c in calls]),
            thoughts="".join(texts(part, thoughts=True) for part in parts if part.get("type") == "reasoning"),
            model=word(body.get("model")),
            end=cut or ("incomplete" if state == "incomplete" else ""),
            refusal="".join(word(content.get("refusal")) for content in contents),
            tokens=tokens_in(body),
            failure=failure,
        )

    def assembled(self, events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Assemble a stream: its last event holds the whole response.

        Some servers leave the output out of it; then the parts that came before count. Without a last event, they were
        cut.
        """
        whole: dict[str, Any] = {"status": "incomplete", "incomplete_details": {"reason": "incomplete"}}
        said, refused, parts = "", "", list[Any]()
        for event in events:
            match event.get("type"):
                case "response.output_text.delta":
                    said += word(event.get("delta"))
                case "response.refusal.delta":
                    refused += word(event.get("delta"))
                case "response.output_item.done":
                    parts.append(event.get("item"))
                case "error":
                    whole["error"] = event.get("error") or event
                case kind if kind in ENDED:
                    whole = {**mapping(event.get("response"))} or whole
        if not any(mapping(part).get("type") == "message" for part in parts) and (said or refused):
            contents = [{"type": "output_text", "text": said}] * bool(said) + [{"refusal": refused}] * bool(refused)
            parts.append({"type": "message", "content": contents})
        return {**whole, "output": whole.get("output") or parts}
