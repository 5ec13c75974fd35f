"""What `backends.toml` says of one backend, and what a backend is given besides."""

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
"""Prices are by this many tokens, as vendors state them."""
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ConfigSection(BaseModel):
    """A table of the file: nothing unknown in it, nothing of it in errors, for it may name secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class PriceOptions(ConfigSection):
    """What a model costs, in US dollars per million tokens."""

    input_usd_per_mtok: float = Field(ge=0, le=1e6, allow_inf_nan=False)
    output_usd_per_mtok: float = Field(ge=0, le=1e6, allow_inf_nan=False)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """US dollars for so many tokens."""
        return (input_tokens * self.input_usd_per_mtok + output_tokens * self.output_usd_per_mtok) / MTOK


class SpendingOptions(ConfigSection):
    """The most that one search may spend at one backend; None for no limit."""

    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class BackendOptions(ConfigSection):
    """What may be said of every backend.

    Attributes:
        kind: Which file of the socket serves it.
        price: Key in the table of prices; the model's name if left out.
        max_concurrency: Calls under way at once.
        requests_per_minute: Calls begun in a minute; None for no limit.
        tokens_per_minute: Tokens asked for in a minute, at most, prompt and answer together.
        per_search: What one search may spend here.
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
    """Whether a host's name says by itself that it is not on the open internet.

    Link-local addresses do not count: where a cloud hands out its machines' credentials is no place for a model.
    """
    try:
        return not is_global(host) and not ip_address(host).is_link_local
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_global(address: str) -> bool:
    """Whether an address is on the open internet; an IPv6 address that wraps an IPv4 one is judged by that.

    Raises:
        ValueError: If it is no address.
    """
    found = ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_global


def base_address(url: str) -> str:
    """Check a base URL: nothing in it may be a secret, and no key may travel in the open."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that starts with http:// or https:// and names a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment; keys go into key_env or key_file")
    return url.rstrip("/")


class HttpOptions(BackendOptions):
    """What may be said of a backend that is called over HTTP.

    Attributes:
        base_url: Where it is. A private address is called only if this names one, or `private_network` allows it.
        model: What to ask for.
        key_env: Environment variable that holds the key.
        key_file: File that holds the key.
        private_network: Whether the host's name may stand for a private address.
        ca_file: Certificates to trust instead of the public ones.
        timeout_s: Seconds for a whole call.
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
            raise ValueError("base_url must start with https:// unless it is private, or private_network = true")
        taken = {"model", "messages", "stream", "n", "system"} & set(self.extra)
        if taken:
            raise ValueError(f"extra may not set {', '.join(sorted(taken))}")
        return self

    @property
    def is_near(self) -> bool:
        """Whether a private address may be called."""
        return self.private_network or is_private(urlsplit(self.base_url).hostname or "")

    @property
    def priced_as(self) -> str | None:
        """Key in the table of prices."""
        return self.price or self.model


class ApiKey:
    """A secret that shows itself to nobody but who asks for `secret`."""

    def __init__(self, secret: str) -> None:
        self.__secret = secret

    @property
    def secret(self) -> str:
        """The key itself, for the header of a request and nothing else."""
        return self.__secret

    def redact(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self.__secret, "[key]")

    def __repr__(self) -> str:
        return "Key(hidden)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not to be copied or stored")


@dataclass(frozen=True)
class BackendContext:
    """What a backend is given besides its options.

    Attributes:
        folder: The data folder; relative paths start here.
        key: Its key, None if it needs none.
        price: What it costs, None if nobody knows.
        wait_for: Waits for the answer to the exchange of that id, given by whoever claimed it.
    """

    folder: Path
    key: ApiKey | None = None
    price: PriceOptions | None = None
    wait_for: "Callable[[str], Awaitable[Completion]] | None" = field(default=None, repr=False)

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for so many tokens, None where the price is unknown."""
        return None if self.price is None else self.price.of(input_tokens, output_tokens)


def clean(text: str) -> str:
    """Text without lone surrogates, which have no UTF-8 form and would break whatever sends or stores it."""
    return text.encode(errors="replace").decode()


def most_tokens(*texts: str) -> int:
    """More tokens than a model can make of some texts, its template's own included.

    Models read bytes: no tokenizer in use makes more than one token of a byte. Chat templates add a few tokens for each
    message; 64 in all is several times what those of today add.
    """
    return 64 + sum(len(text.encode(errors="replace")) for text in texts)
