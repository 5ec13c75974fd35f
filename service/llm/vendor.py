"""Backends over HTTP: what all vendors have in common, whatever the form of their requests and responses.

A vendor that refuses the form of a request (no system role, streams only, another name for the limit) is asked once
more in the form that it wants, and from then on always: such a refusal is a 400, which costs nothing.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from service.llm.base import (
    Backend,
    BackendError,
    Completion,
    LlmPrompt,
    LlmRefused,
    PermanentFailure,
    TransientFailure,
)
from service.llm.options import ApiKey, BackendContext, BackendOptions, HttpOptions, clean
from service.llm.transport import VendorClient
from service.llm.vendor_failures import failure_inside, quote
from service.llm.vendor_reply import TokenCounts, VendorReply, error_message, mapping, word

SystemRole = Literal["system", "developer", "user"]
UNWANTED = (
    r"(not|n't|un)[ -]?(support|recogni|permit|allow|enabl|know|accept)|extra inputs|unexpected|instead|only|invalid"
)
ENVELOPES = ("data", "result", "response", "body")
"""Fields in which gateways put the response of a vendor."""
OPTIONAL = ("stream_options", "store")
"""Fields that a request can do without: they ask for token counts, and that nothing be kept."""
NO_SYSTEM = re.compile(
    rf"(system|developer).{{0,60}}({UNWANTED})|developer instruction|role.{{0,60}}system|roles must alternate", re.I
)
"""Pattern of messages that the model takes no system message."""
OUT_OF_RANGE = re.compile(
    r"range|too (large|big|high|small)|at (most|least)|maximum|exceed|up to|(less|greater|more) than|between"
    r"|<=|>=|\d [<>]",
    re.I,
)
"""Pattern of messages about a value. Such a field is known: under another name, some vendors ignore it."""
STREAMS_ONLY = re.compile(
    r"only.{0,20}support.{0,20}stream|must.{0,20}stream|stream.{0,40}(must|required|set to true|only|enable)"
    r"|enable.{0,30}stream|streaming is (required|strongly)|non-?stream",
    re.I,
)
"""Pattern of messages that an endpoint can only stream."""


@dataclass(frozen=True)
class RequestForm:
    """Form of a vendor's requests.

    Attributes:
        limit_field: Name of the field with the maximum tokens of the answer.
        system_role: Role of the instructions; `user` puts them in front of the request.
        stream: True to ask for a stream.
        omitted: Fields that the vendor does not know, and that a request can do without.
    """

    limit_field: str
    system_role: SystemRole = "system"
    stream: bool = False
    omitted: frozenset[str] = frozenset()


class HttpBackend(Backend):
    """Backend that posts a prompt to a vendor and reads its response.

    Attributes:
        path: Path of the API below the base URL.
        limit_fields: Names of the field that limits an answer, the usual one first.
        fixed_headers: Headers of every request.
    """

    path: ClassVar[str]
    limit_fields: ClassVar[tuple[str, ...]]
    fixed_headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: HttpOptions, surroundings: BackendContext) -> None:
        key = surroundings.key
        self._options = options
        self._surroundings = surroundings
        self._caller = VendorClient(options, key, self._authorization(key))
        self._form = self.first_form(options)
        self._answers = False

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend for the endpoint in its options."""
        assert isinstance(options, HttpOptions)
        return cls(options, surroundings)

    async def close(self) -> None:
        """Close every connection."""
        await self._caller.close()

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Answer one prompt.

        Raises:
            TransientFailure: As `VendorClient.post`, or if the response is none of this API.
            PermanentFailure: As `VendorClient.post`.
            LlmRefused: As `VendorClient.post`, or if the model or a filter refused.
        """
        prompt = replace(prompt, max_tokens=self._options.answer_tokens(prompt.max_tokens))
        form, tried = self._form, set[RequestForm]()
        while True:
            tried.add(form)
            try:
                received = await self._caller.post(self.path, self._body(prompt, form), key)
                break
            except (PermanentFailure, LlmRefused) as failure:
                adapted = None if getattr(failure, "paid", False) else self._adapted(form, failure.detail)
                if adapted is not None and adapted not in tried:
                    form = self._form = adapted
                elif getattr(failure, "rejection", False) and self._answers:
                    raise LlmRefused(failure.detail) from failure  # it answered others, so the prompt is the cause
                else:
                    raise
        reply = self._read(received if isinstance(received, dict) else self.assembled(received))
        completion = self._completed(prompt, reply)
        self._answers = True
        return completion

    @abstractmethod
    def body(self, prompt: LlmPrompt, form: RequestForm) -> dict[str, Any]:
        """Write the fields of a request, without the limit of the answer."""

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> VendorReply:
        """Read a response.

        Raises:
            TransientFailure: If it is none of this API.
        """

    @abstractmethod
    def assembled(self, events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Assemble the events of a stream to the response that would have come without one."""

    def authorized(self, secret: str) -> Mapping[str, str]:
        """Return the headers that carry a key."""
        return {"Authorization": f"Bearer {secret}"}

    def first_form(self, options: HttpOptions) -> RequestForm:
        """Return the form of the first request."""
        return RequestForm(self.limit_fields[0], stream=options.stream)

    def _authorization(self, key: ApiKey | None) -> Mapping[str, str]:
        named = self._options.key_header
        if key is None:
            return self.fixed_headers
        return {**self.fixed_headers, **({named: key.secret} if named else self.authorized(key.secret))}

    def _body(self, prompt: LlmPrompt, form: RequestForm) -> dict[str, Any]:
        limit = {form.limit_field: prompt.max_tokens}
        own = {name: value for name, value in self.body(prompt, form).items() if name not in form.omitted}
        return {**self._options.extra, "model": self._options.model, **own, **limit}

    def _read(self, body: Mapping[str, Any]) -> VendorReply:
        """Read a response, or the one that a gateway's envelope holds."""
        try:
            return self.read(body)
        except TransientFailure:
            inside = next((each for name in ENVELOPES if (each := mapping(body.get(name)))), None)
            if inside is None:
                raise
            return self.read(inside)

    def _adapted(self, form: RequestForm, words: str) -> RequestForm | None:
        """Return the form that a vendor's refusal asks for; None if it asks for none."""
        others = [name for name in self.limit_fields if name != form.limit_field]
        is_unknown = re.search(UNWANTED, words, re.I) and not OUT_OF_RANGE.search(words)
        if form.limit_field in words and is_unknown and others:
            return replace(form, limit_field=others[0])
        refused = [name for name in OPTIONAL if name in words and name not in form.omitted]
        if refused and re.search(UNWANTED, words, re.I):
            return replace(form, omitted=form.omitted.union(refused))
        if not form.stream and STREAMS_ONLY.search(words):
            return replace(form, stream=True)
        if form.system_role != "user" and NO_SYSTEM.search(words):
            return replace(form, system_role="user")
        return None

    def _completed(self, prompt: LlmPrompt, reply: VendorReply) -> Completion:
        completion = completion_of(prompt, self._surroundings, self._options, reply)
        if reply.failure is not None and not reply.text.strip():
            failure = failure_inside(reply.failure, self._surroundings.key)
            raise LlmRefused(failure.detail, completion) if _is_counted(reply.tokens) else failure
        if reply.filtered:
            said = quote(reply.refusal or completion.text or reply.end, self._surroundings.key)
            raise LlmRefused(f"the model refused to answer: {said[:200]}", completion)
        if reply.broken_off and not completion.text.strip():
            raise LlmRefused(
                f"the vendor ended it without an answer: {quote(reply.end, self._surroundings.key)}", completion
            )
        return completion


def completion_of(
    prompt: LlmPrompt, surroundings: BackendContext, options: HttpOptions, reply: VendorReply
) -> Completion:
    """Build a completion with its cost. Tokens that the vendor does not count are taken to be as many as possible.

    A count of zero for a text that is not empty is no count.
    """
    text = clean(reply.said or reply.refusal)
    said = bool(text.strip() or reply.thoughts)
    input_tokens = reply.tokens.prompt or options.billed_prompt(prompt.system, prompt.user)
    counted = reply.tokens.answer
    output_tokens = options.billed_answer(prompt.max_tokens) if counted is None or (said and not counted) else counted
    cost_usd = surroundings.cost(input_tokens, output_tokens)
    model = clean(reply.model or options.model)[:200]
    return Completion(text, model, input_tokens, output_tokens, cost_usd, reply.truncated)


def unlike(api: str, body: Mapping[str, Any], key: ApiKey | None) -> BackendError:
    """Return the failure of a response that is none of an API, with the vendor's words if it has some."""
    if error_message(body):
        return failure_inside(body, key)
    fields = quote(", ".join(sorted(map(str, body)))[:100], key) or "nothing"
    state = quote(word(body.get("status")), key)
    words = f"the response is not {api}; it holds {fields}" + (f"; its status is {state}" if state else "")
    return TransientFailure(words, paid=True)


def _is_counted(tokens: TokenCounts) -> bool:
    return bool(tokens.prompt or tokens.answer)
