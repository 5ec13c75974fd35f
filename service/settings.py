"""Settings: environment variables with the prefix `REEF_`. `docs/reference/settings.md` explains each."""

import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

SECRETS = Path("/run/secrets")
"""Where container engines put secrets, one a file: a setting may be one, named `reef_database_url` and so on."""
DATABASE_FILE = "reef.db"
"""The embedded database, in the data folder."""


def data_home() -> Path:
    """Where Kernelreef keeps its data unless told otherwise.

    `$XDG_DATA_HOME/kernelreef`, and `~/.local/share/kernelreef` where that is unset or relative (XDG Base Directory
    Specification 0.8, which tells programs to ignore relative paths).
    """
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path("~/.local/share").expanduser()) / "kernelreef"


def usable_cores() -> int:
    """Cores that this process may run on; less than the machine has where a container or a mask narrows it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _names(text: object) -> object:
    """Names as the environment has them: with commas between."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if isinstance(text, str) else text


def _one_of(*prefixes: str) -> AfterValidator:
    def check(url: str) -> str:
        if not url.startswith(prefixes):
            raise ValueError(f"must start with one of: {', '.join(prefixes)}")
        return url

    return AfterValidator(check)


class Settings(BaseSettings):
    """What one coordinator, and the command line around it, needs to know. Without any setting all is embedded."""

    model_config = SettingsConfigDict(
        env_prefix="REEF_",
        env_ignore_empty=True,
        secrets_dir=SECRETS if SECRETS.is_dir() else None,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: Annotated[str, _one_of("sqlite+aiosqlite:///", "postgresql+psycopg://")] | None = Field(
        default=None, repr=False
    )
    """Where the archive is; None for SQLite in the data folder. Not shown in logs: it may hold a password."""
    redis_url: Annotated[str, _one_of("redis://", "rediss://", "unix://")] | None = Field(default=None, repr=False)
    """Where the queue is; None for an embedded server. Not shown in logs: it may hold a password."""
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(default_factory=data_home)
    """Folder of the embedded database, the embedded queue and everything exported."""
    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    """Address to serve on; any but loopback needs a login."""
    port: int = Field(default=8700, ge=0, le=65535)
    """Port to serve on; 0 lets the system choose."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] | None = None
    """Names that requests may ask for, besides those of loopback; a login is needed where there are any."""
    tls_certificate: Annotated[Path, AfterValidator(_absolute)] | None = None
    """File of the certificate, with those that lead to it, in PEM; None to serve without TLS."""
    tls_key: Annotated[Path, AfterValidator(_absolute)] | None = None
    """File of the certificate's private key, in PEM; None if it is in the certificate's file."""
    worker_redis_url: Annotated[str, _one_of("redis://", "rediss://")] | None = None
    """Where workers that join find the queue, without any credential; an embedded server then listens there as well.
    None for the address that this service uses itself."""
    redis_ca: Annotated[Path, AfterValidator(_absolute)] | None = None
    """File of the authorities that the queue's certificate is checked against; None for the system's."""
    requests_per_s: int = Field(default=50, ge=0, le=1_000_000)
    """Requests a second that each caller may make on average; 0 for any number."""
    local_workers: int = Field(default_factory=usable_cores, ge=0, le=1024)
    """Worker processes on this machine; 0 where workers run elsewhere."""
    benches_per_card: int = Field(default=1, ge=1, le=16)
    """Worker processes that measure on each card of this machine, and take turns there."""
    in_flight_per_search: int = Field(default=8, ge=1, le=10_000)
    """Candidates of one search that may be on their way at once."""
    in_flight_per_owner: int = Field(default=256, ge=1, le=100_000)
    """Candidates of all searches of one token that may be on their way at once."""
    in_flight: int = Field(default=1024, ge=1, le=1_000_000)
    """Candidates of all searches that may be on their way at once."""
    url: Annotated[str, _one_of("http://", "https://")] | None = None
    """Where the coordinator is that commands speak to; None for one inside the command."""
    token: str | None = Field(default=None, repr=False)
    """What commands show to the coordinator to say who is calling. Not shown in logs: it is a secret."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged."""
    log_json: bool = False
    """Log one JSON object a line instead of text."""

    @field_validator("redis_ca")
    @classmethod
    def _needs_tls(cls, file: Path | None, others: ValidationInfo) -> Path | None:
        urls = (others.data.get("redis_url"), others.data.get("worker_redis_url"))
        if file is not None and not any(str(url).startswith("rediss://") for url in urls):
            raise ValueError("needs a REEF_REDIS_URL that starts with rediss://; others are not encrypted")
        return file

    @property
    def queue(self) -> str | None:
        """The queue's address, with the authorities to check its certificate against; None for an embedded server."""
        if self.redis_url is None or self.redis_ca is None or not self.redis_url.startswith("rediss://"):
            return self.redis_url
        return f"{self.redis_url}{'&' if '?' in self.redis_url else '?'}ssl_ca_certs={quote(str(self.redis_ca))}"

    @property
    def measured_dir(self) -> Path:
        """Folder of what measuring on this machine's cards leaves: figures of baselines."""
        return self.data_dir / "measured"

    @property
    def alone(self) -> bool:
        """Whether no other coordinator can share archive and queue with this one: both are embedded."""
        return self.redis_url is None and (self.database_url is None or self.database_url.startswith("sqlite"))

    @property
    def database(self) -> str:
        """The archive's address: the one given, or SQLite in the data folder."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / DATABASE_FILE}"
