"""Options of a backend in `backends.toml`, and the context that a backend gets besides."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from service.errors import InvalidInput

if TYPE_CHECKING:
    from service.llm.base import Completion

MTOK = 1_000_000
"""Number of tokens that prices refer to, as vendors state them."""
ANSWER_TOKENS = 8192
"""Maximum tokens of an answer, unless a backend's options say otherwise."""
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ConfigSection(BaseModel):
    """Table of the file. Unknown keys are errors; errors never quote its values, which may be secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class PriceOptions(ConfigSection):
    """Price of a model, in US dollars per million tokens."""

    input_usd_per_mtok: float = Field(ge=0, le=1e6, allow_inf_nan=False)
    output_usd_per_mtok: float = Field(ge=0, le=1e6, allow_inf_nan=False)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of so many tokens in US dollars."""
        return (input_tokens * self.input_usd_per_mtok + output_tokens * self.output_usd_per_mtok) / MTOK


class SpendingOptions(ConfigSection):
    """Limits on what one search may spend at one backend; None for no limit."""

    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class BackendOptions(ConfigSection):
    """Options of every backend.

    Attributes:
        kind: Key of its implementation in `BACKENDS`.
        price: Key in the table of prices; the model's name if left out.
        max_concurrency: Maximum number of concurrent calls.
        requests_per_minute: Maximum number of calls started per minute; None for no limit.
        tokens_per_minute: Maximum number of tokens requested per minute, prompt and answer together.
        per_search: Limits on the spending of one search.
    """

    kind: Word
    price: Word | None = None
    max_concurrency: int = Field(default=4, ge=1, le=10_000)
    requests_per_minute: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    per_search: SpendingOptions = SpendingOptions()

    @property
    def priced_as(self) -> str | None:
        """Key in the table of prices."""
        return self.price

    def billed_prompt(self, *texts: str) -> int:
        """Return the maximum number of tokens that a prompt can be billed for."""
        return most_tokens(*texts)

    def billed_answer(self, asked: int) -> int:
        """Return the maximum number of tokens that an answer can be billed for, if `asked` are the prompt's maximum."""
        return asked


def is_private(host: str) -> bool:
    """Return True if a host name itself shows that the host is not on the public internet.

    Link-local addresses do not count: clouds serve their machines' credentials there.
    """
    try:
        return not is_global(host) and not ip_address(host).is_link_local
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_global(address: str) -> bool:
    """Return True if an address is on the public internet. For an IPv4-mapped IPv6 address the IPv4 address counts.

    Raises:
        ValueError: If the text is no address.
    """
    found = ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_global


def base_address(url: str) -> str:
    """Check a base URL, which must hold no secret, and remove trailing slashes."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must start with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment; keys go into key_env or key_file")
    return url.rstrip("/")


Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderText = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{0,4000}$")]
OWN_FIELDS = frozenset(
    {"model", "messages", "system", "input", "instructions", "prompt", "stream", "stream_options"}
    | {"max_tokens", "max_completion_tokens", "max_output_tokens"}
)
"""Fields of a request that the service sets by itself."""
CHARGED_FIELDS = re.compile(
    r"n|best_of|(num|max)_?(return_sequences|completions|generations|candidates|choices|samples|beams)|samples"
    r"|candidate_?count|beam_width|use_beam_search|prediction|models|route|fallbacks|tools|functions|plugins"
    r"|.*search(_?(options|parameters|retrieval|tool))?|grounding|connectors|documents|data_?sources|mcp_servers"
    r"|container|background|conversation|previous_response_id|cache_control|modalities|audio|input_file|attachments"
)
"""Pattern of fields that make a vendor charge for what no reservation covers: more answers, other models, tools,
searches, media, earlier or fetched texts."""
TIER_FIELDS = ("service_tier", "servicetier", "speed")
USUAL_TIERS = (None, "default", "standard", "standard_only", "normal", "auto", "flex", "on_demand")
"""Fields that choose a tier of service, and those tiers that cost no more than the usual one."""
LIMIT_FIELDS = re.compile(r"(max|min|budget|num|limit).*(token|predict|length)|budget|num_?predict|^max_len", re.I)
"""Pattern of fields that limit an answer or its thoughts, in the APIs of all vendors."""


class HttpOptions(BackendOptions):
    """Options of a backend that is called over HTTP.

    Attributes:
        base_url: Base URL. A private address is called only if this URL names it, or `private_network` allows it.
        model: Model to ask for.
        max_tokens: Maximum tokens of an answer, thoughts included; None for the prompt's own maximum, 8192.
        reasoning_tokens: Maximum tokens of thoughts that the vendor bills beside `max_tokens`.
        key_env: Environment variable with the key.
        key_file: File with the key.
        key_header: Header that carries the bare key; None for the usual one of the API.
        headers: More headers. A value `$NAME` is read from an environment variable.
        query: Parameters of the URL, such as Azure's `api-version`.
        proxy: URL of an HTTP proxy, or `$NAME`. It resolves names, so private addresses are its affair.
        stream: True to ask for a stream of events; endpoints that can do nothing else are noticed anyway.
        private_network: True if the host's name may resolve to a private address.
        ca_file: Certificates to trust instead of the public ones.
        timeout_s: Maximum seconds per call.
        extra: Further fields of the request's body, such as temperature. None can exceed what is reserved.
    """

    base_url: Annotated[str, AfterValidator(base_address)]
    model: Word
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    reasoning_tokens: int = Field(default=0, ge=0, le=10_000_000)
    key_env: Word | None = None
    key_file: Path | None = None
    key_header: Header | None = None
    headers: dict[Header, HeaderText] = Field(default_factory=dict)
    query: dict[Word, HeaderText] = Field(default_factory=dict)
    proxy: Word | None = None
    stream: bool = False
    private_network: bool = False
    ca_file: Path | None = None
    timeout_s: float = Field(default=300.0, gt=0, le=86_400, allow_inf_nan=False)
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> "HttpOptions":
        if self.key_env and self.key_file:
            raise ValueError("give key_env or key_file, not both")
        if self.base_url.startswith("http://") and not self.is_near:
            raise ValueError("base_url must start with https:// unless the host is private or private_network = true")
        if self.proxy and not self.proxy.startswith(("http://", "https://", "$")):
            raise ValueError("proxy must start with http:// or https://, or be $NAME of an environment variable")
        taken = sorted({"host", "content-length", "content-type", "idempotency-key"} & {*map(str.lower, self.headers)})
        if taken:
            raise ValueError(f"headers may not set {', '.join(taken)}")
        try:
            json.dumps(self.extra)
        except (TypeError, ValueError) as error:
            raise ValueError("extra must be of values that JSON has") from error
        for name, value in _fields(self.extra):
            self._require_covered(name, value)
        return self

    def _require_covered(self, name: str, value: object) -> None:
        """Check that a field of `extra` cannot make a call cost more than its reservation."""
        last = name.rpartition(".")[2].lower()
        if name in OWN_FIELDS or last in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            instead = "; set max_tokens beside model instead" if "max_" in last else ""
            inside = name not in OWN_FIELDS and _is_within(value, self.max_tokens)
            if not inside:
                raise ValueError(f"extra may not set {name}{instead}")
        elif CHARGED_FIELDS.fullmatch(last) and (value is True or value not in (None, False, 1, [], {}, ["text"])):
            raise ValueError(f"extra may not set {name}: vendors charge for it beside what is reserved")
        elif last in TIER_FIELDS and value not in USUAL_TIERS and self.price is None:
            raise ValueError(f"extra.{name} may cost more than the model's price: let price name a row of [prices]")
        elif LIMIT_FIELDS.search(last) and _is_amount(value) and not _is_within(value, self.max_tokens):
            raise ValueError(f"extra.{name} must be a number up to max_tokens; set max_tokens beside model")

    @property
    def is_near(self) -> bool:
        """True if a private address may be called."""
        return self.private_network or is_private(urlsplit(self.base_url).hostname or "")

    @property
    def priced_as(self) -> str | None:
        """Key in the table of prices."""
        return self.price or self.model

    def answer_tokens(self, asked: int) -> int:
        """Return the maximum number of tokens of an answer that a call asks for."""
        return self.max_tokens or asked

    def billed_prompt(self, *texts: str) -> int:
        """Return the maximum number of tokens that a prompt can be billed for; schemas in `extra` become part of it."""
        return most_tokens(*texts, json.dumps(self.extra) if self.extra else "")

    def billed_answer(self, asked: int) -> int:
        """Return the maximum number of tokens that an answer can be billed for, thoughts included."""
        return self.answer_tokens(asked) + self.reasoning_tokens


def _fields(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """List the fields of a JSON value at any depth, by their path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield here, inner
            yield from _fields(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner, path)


def _is_amount(value: object) -> bool:
    """Return True if a value may be a number of tokens."""
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _is_within(value: object, most: int | None) -> bool:
    """Return True if a value is a number of tokens that a maximum covers."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= (most or ANSWER_TOKENS)


def from_environment(value: str) -> str:
    """Return a value, or that of the environment variable which `$NAME` names.

    Raises:
        InvalidInput: If that variable is not set.
    """
    if not value.startswith("$"):
        return value
    found = os.environ.get(value[1:], "").strip()
    if not found or not (found.isascii() and found.isprintable()):
        raise InvalidInput(f"the environment variable {value[1:]} is empty or unusable", "environment")
    return found


HIDDEN = "[key]"
"""Text in place of a key."""


class ApiKey:
    """API key that only `secret` reveals; its repr and pickles do not. `others` are secrets of other headers."""

    def __init__(self, secret: str, *others: str) -> None:
        self.__secret = secret
        self.__others = others

    @property
    def secret(self) -> str:
        """Key itself, for the header of a request only."""
        return self.__secret

    def redact(self, text: str) -> str:
        """Return a text without the key."""
        for secret in filter(None, (self.__secret, *self.__others)):
            text = text.replace(secret, HIDDEN)
        return text

    def __repr__(self) -> str:
        return "ApiKey(hidden)"

    def __reduce__(self) -> str:
        raise TypeError("a key must not be copied or stored")


@dataclass(frozen=True)
class AgentPass:
    """Everything that lets one agent in: address of the service, token, and the one search that the token is for."""

    url: str
    token: str = field(repr=False)
    search: str


@dataclass(frozen=True)
class BackendContext:
    """Context of a backend besides its options.

    Attributes:
        folder: Data folder, which relative paths start from.
        key: API key; None if it needs none.
        price: Price; None if unknown.
        wait_for: Waits for the manual answer to the exchange with the given id.
        admit: Admits an agent for an exchange, a number of evaluations and of seconds; the pass ends with the block.
    """

    folder: Path
    key: ApiKey | None = None
    price: PriceOptions | None = None
    wait_for: "Callable[[str], Awaitable[Completion]] | None" = field(default=None, repr=False)
    admit: Callable[[str, int, float], AbstractAsyncContextManager[AgentPass]] | None = field(default=None, repr=False)

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the cost of so many tokens in US dollars; None if the price is unknown."""
        return None if self.price is None else self.price.of(input_tokens, output_tokens)


def clean(text: str) -> str:
    """Replace lone surrogates, which have no UTF-8 form and would break sending and storing."""
    return text.encode(errors="replace").decode()


def most_tokens(*texts: str) -> int:
    """Return an upper bound on the tokens of some texts, those of the chat template included.

    No tokenizer in use makes more than one token per byte. Chat templates add a few tokens per message; 64 in total is
    several times what present ones add.
    """
    return 64 + sum(len(text.encode(errors="replace")) for text in texts)
