"""Options of a backend in `backends.toml`, and the context that a backend gets besides."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

if TYPE_CHECKING:
    from service.llm.base import Completion

MTOK = 1_000_000
"""Number of tokens that prices refer to, as vendors state them."""
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


class HttpOptions(BackendOptions):
    """Options of a backend that is called over HTTP.

    Attributes:
        base_url: Base URL. A private address is called only if this URL names it, or `private_network` allows it.
        model: Model to ask for.
        key_env: Environment variable with the key.
        key_file: File with the key.
        private_network: True if the host's name may resolve to a private address.
        ca_file: Certificates to trust instead of the public ones.
        timeout_s: Maximum seconds per call.
        extra: Further fields of the request's body, such as temperature.
    """

    base_url: Annotated[str, AfterValidator(base_address)]
    model: Word
    key_env: Word | None = None
    key_file: Path | None = None
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
        taken = {"model", "messages", "stream", "n", "system"} & set(self.extra)
        if taken:
            raise ValueError(f"extra may not set {', '.join(sorted(taken))}")
        return self

    @property
    def is_near(self) -> bool:
        """True if a private address may be called."""
        return self.private_network or is_private(urlsplit(self.base_url).hostname or "")

    @property
    def priced_as(self) -> str | None:
        """Key in the table of prices."""
        return self.price or self.model


class ApiKey:
    """API key that only `secret` reveals; its repr and pickles do not."""

    def __init__(self, secret: str) -> None:
        self.__secret = secret

    @property
    def secret(self) -> str:
        """Key itself, for the header of a request only."""
        return self.__secret

    def redact(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self.__secret, "[key]")

    def __repr__(self) -> str:
        return "ApiKey(hidden)"

    def __reduce__(self) -> str:
        raise TypeError("a key must not be copied or stored")


@dataclass(frozen=True)
class BackendContext:
    """Context of a backend besides its options.

    Attributes:
        folder: Data folder, which relative paths start from.
        key: API key; None if it needs none.
        price: Price; None if unknown.
        wait_for: Waits for the manual answer to the exchange with the given id.
    """

    folder: Path
    key: ApiKey | None = None
    price: PriceOptions | None = None
    wait_for: "Callable[[str], Awaitable[Completion]] | None" = field(default=None, repr=False)

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
