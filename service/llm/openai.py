"""Backend `openai`: any endpoint with OpenAI's chat completions API, hosted or local."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from service.llm.base import LlmPrompt
from service.llm.options import BackendOptions, HttpOptions
from service.llm.vendor import HttpBackend, RequestForm, SystemRole, unlike
from service.llm.vendor_reply import (
    THOUGHT_FIELDS,
    TokenCounts,
    VendorReply,
    all_texts,
    items,
    mapping,
    streamed_tokens,
    texts,
    tokens_in,
    with_calls,
    word,
)

MOST_CALLS = 64
"""Maximum number of tool calls in a message."""


class OpenaiOptions(HttpOptions):
    """Options; a vendor that refuses the first `max_tokens_field` or `system_role` is asked with another."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: SystemRole = "system"


class Openai(HttpBackend):
    """Chat completions: one message in, one out."""

    kind: ClassVar[str] = "openai"
    options: ClassVar[type[BackendOptions]] = OpenaiOptions
    path: ClassVar[str] = "/chat/completions"
    limit_fields: ClassVar[tuple[str, ...]] = ("max_tokens", "max_completion_tokens")

    def first_form(self, options: HttpOptions) -> RequestForm:
        """Return the form of the first request, as the options say."""
        assert isinstance(options, OpenaiOptions)
        return RequestForm(options.max_tokens_field, options.system_role, options.stream)

    def body(self, prompt: LlmPrompt, form: RequestForm) -> dict[str, Any]:
        """Write the messages of a request."""
        streamed: dict[str, Any] = {"stream": True} if form.stream else {}
        if form.stream:
            streamed["stream_options"] = {"include_usage": True}
        if prompt.system and form.system_role == "user":
            return {"messages": [{"role": "user", "content": f"{prompt.system}\n\n{prompt.user}"}], **streamed}
        system = [{"role": form.system_role, "content": prompt.system}] if prompt.system else []
        return {"messages": [*system, {"role": "user", "content": prompt.user}], **streamed}

    def read(self, body: Mapping[str, Any]) -> VendorReply:
        """Read a chat completion.

        Raises:
            TransientFailure: If it is none.
        """
        failure = body.get("error") or (body if body.get("object") == "error" else None)
        given = body.get("choices")
        choices = [mapping(each) for each in ([given] if isinstance(given, dict) else items(given))]
        if not choices and isinstance(body.get("message"), dict):
            choices = [body]  # Ollama's own form
        tokens = tokens_in(body)
        if not choices and not failure and tokens == TokenCounts():
            raise unlike("a chat completion", body, self._surroundings.key)
        choice = max(choices, key=lambda each: bool(_text_of(each)), default={})
        message = mapping(choice.get("message"))
        end = word(choice.get("finish_reason")) or word(choice.get("done_reason")) or word(choice.get("stop_reason"))
        return VendorReply(
            text=_text_of(choice),
            thoughts=next((said for name in THOUGHT_FIELDS if (said := all_texts(message.get(name)))), "")
            or texts(message.get("content"), thoughts=True),
            model=word(body.get("model")),
            end=end,
            refusal=word(message.get("refusal")),
            tokens=tokens,
            failure=failure or choice.get("error"),
        )

    def assembled(self, events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Assemble the chunks of a stream. One that broke off before its end was cut."""
        whole: dict[str, Any] = {}
        choices: dict[object, _StreamedChoice] = {}
        counted: list[tuple[TokenCounts, bool]] = []
        for event in events:
            whole.update({"model": event["model"]} if event.get("model") else {})
            found = [mapping(each) for each in items(event.get("choices"))]
            found = found or ([event] if isinstance(event.get("message"), dict) else [])  # Ollama's own form
            errors = [each["error"] for each in (event, *found) if each.get("error")]
            errors += [event] if event.get("type") == "error" else []
            whole.update({"error": errors[0]} if errors else {})
            brings = [choices.setdefault(each.get("index"), _StreamedChoice()).add(each) for each in found]
            tokens = tokens_in(event)
            counted += [(tokens, any(brings))] if tokens != TokenCounts() else []
        tokens = streamed_tokens(counted)
        whole["usage"] = {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.answer}
        said = [each.whole(counted=bool(counted) and not counted[-1][1]) for each in choices.values()]
        if "error" not in whole or any(_text_of(each) for each in said):
            whole["choices"] = said or [{"finish_reason": "incomplete"}]
        return whole


class _StreamedChoice:
    """Choice of a stream, of which chunks come one by one."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"content": "", "tool_calls": []}
        self._wholes: list[str] = []
        self._end = ""

    def add(self, choice: Mapping[str, Any]) -> bool:
        """Add a chunk; returns True if it brings text."""
        self._end = word(choice.get("finish_reason")) or word(choice.get("done_reason")) or self._end
        delta = choice.get("delta")
        if not isinstance(delta, dict) and "text" not in choice:
            message = mapping(choice.get("message"))
            self._wholes.append(texts(message.get("content")))
            _add(self._message, {**message, "content": ""})
            return bool(self._wholes[-1])
        _add(self._message, mapping(delta))
        self._message["content"] += word(choice.get("text"))
        return any(bool(value) for name, value in mapping(delta).items() if name != "role") or bool(choice.get("text"))

    def whole(self, *, counted: bool) -> dict[str, Any]:
        """Return the choice. Without an end it was cut, unless the vendor counted it (`counted`) after its last text.

        Messages may come as parts, or each as all so far.
        """
        said = [each for each in self._wholes if each]
        grows = len(said) > 1 and all(later.startswith(earlier) for earlier, later in itertools.pairwise(said))
        content = self._message["content"] or (said[-1] if grows else "".join(said))
        end = self._end or ("" if counted and content else "incomplete")
        return {"message": {**self._message, "content": content}, "finish_reason": end}


def _text_of(choice: Mapping[str, Any]) -> str:
    """Return the text of a choice: its content, or what the model put into tool calls."""
    message = mapping(choice.get("message"))
    text = texts(message.get("content")) or word(choice.get("text"))
    calls = [mapping(mapping(call).get("function")) for call in items(message.get("tool_calls"))]
    calls += [mapping(message["function_call"])] if message.get("function_call") else []
    return with_calls(text, [(word(call.get("name")), call.get("arguments")) for call in calls])


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a chunk to a message."""
    message["content"] += texts(delta.get("content"))
    thought = texts(delta.get("content"), thoughts=True)
    for name in (*THOUGHT_FIELDS, "refusal"):
        said = all_texts(delta.get(name)) + (thought if name == THOUGHT_FIELDS[0] else "")
        if said:
            message[name] = message.get(name, "") + said
    calls = message["tool_calls"]
    for number, call in enumerate(map(mapping, items(delta.get("tool_calls")))):
        place, function = call.get("index", number), mapping(call.get("function"))
        known = next((each for each in reversed(calls) if each["index"] == place), None)
        begins = known is not None and function.get("name") and call.get("id") not in (None, "", known["id"])
        if (known is None or begins) and len(calls) < MOST_CALLS:
            known = {"index": place, "id": call.get("id"), "function": {"name": "", "arguments": ""}}
            calls.append(known)
        if known is not None:
            known["function"]["name"] += word(function.get("name"))
            known["function"]["arguments"] += word(function.get("arguments"))
