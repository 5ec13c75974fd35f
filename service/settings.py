"""Settings from environment variables with the prefix `REEF_`. `docs/reference/settings.md` explains each for users."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

SECRETS = Path("/run/secrets")
"""Folder of container secrets, one file each: a file named `reef_database_url`, for example, sets that setting."""
WORKER_BYTES = 3 * 2**29
"""Memory per worker: 0.5 GiB of libraries, and 1 GiB for the trace of the largest kernels of the catalogue."""
MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of a container, by cgroups 2 and 1."""
DATABASE_FILE = "reef.db"
"""Name of the embedded database in the data folder."""


def data_home() -> Path:
    """Return the default data folder: `$XDG_DATA_HOME/kernelreef`, or else `~/.local/share/kernelreef`.

    A relative `$XDG_DATA_HOME` is ignored, as the XDG Base Directory Specification 0.8 demands.
    """
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path("~/.local/share").expanduser()) / "kernelreef"


def usable_cores() -> int:
    """Return the number of cores that this process may use; a container or an affinity mask may limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_memory_bytes() -> int:
    """Return the memory of this machine in bytes, or the limit of this process's container if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # Without a limit the file says "max".
            limits.append(int(file.read_text()))
    return min(limits)


def usable_workers() -> int:
    """Return the number of workers for this machine: one per core, if the memory suffices."""
    return max(1, min(usable_cores(), usable_memory_bytes() // WORKER_BYTES))


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _names(text: object) -> object:
    """Split comma-separated names, as the environment has them."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if isinstance(text, str) else text


def _one_of(*prefixes: str) -> AfterValidator:
    def check(url: str) -> str:
        if not url.startswith(prefixes):
            raise ValueError(f"must start with one of: {', '.join(prefixes)}")
        return url

    return AfterValidator(check)


class Settings(BaseSettings):
    """Settings of a coordinator and of the command line. By default everything is embedded."""

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
    """Address of the archive; None for SQLite in the data folder. Hidden from logs: it may hold a password."""
    redis_url: Annotated[str, _one_of("redis://", "rediss://", "unix://")] | None = Field(default=None, repr=False)
    """Address of the queue; None for an embedded server. Hidden from logs: it may hold a password."""
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(default_factory=data_home)
    """Folder of the embedded database, the embedded queue and all exports."""
    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    """Address to listen on; any but loopback requires a login."""
    port: int = Field(default=8700, ge=0, le=65535)
    """Port to listen on; 0 lets the system choose."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] | None = None
    """Host names that requests may use besides those of loopback; setting any requires a login."""
    tls_certificate: Annotated[Path, AfterValidator(_absolute)] | None = None
    """PEM file of the certificate and its chain; None to serve without TLS."""
    tls_key: Annotated[Path, AfterValidator(_absolute)] | None = None
    """PEM file of the certificate's private key; None if it is in the certificate's file."""
    worker_redis_url: Annotated[str, _one_of("redis://", "rediss://")] | None = None
    """Address of the queue for remote workers, without credentials; an embedded server then listens there too.
    None for the address that the service itself uses."""
    redis_ca: Annotated[Path, AfterValidator(_absolute)] | None = None
    """PEM file of the authorities that verify the queue's certificate; None for the system's."""
    requests_per_s: int = Field(default=50, ge=0, le=1_000_000)
    """Maximum requests per second and caller, on average; 0 for no limit."""
    local_workers: int = Field(default_factory=usable_workers, ge=0, le=1024)
    """Number of worker processes on this machine; 0 if workers run elsewhere."""
    benches_per_card: int | None = Field(default=None, ge=1, le=16)
    """Number of worker processes that share each card of this machine and take turns to measure; None to derive it from
    the card's memory and the cores."""
    in_flight_per_search: int | None = Field(default=None, ge=1, le=10_000)
    """Maximum candidates in flight per search; None to derive it from the workers and the times of their jobs."""
    in_flight_per_owner: int = Field(default=256, ge=1, le=100_000)
    """Maximum candidates in flight per token, over all its searches."""
    in_flight: int = Field(default=1024, ge=1, le=1_000_000)
    """Maximum candidates in flight over all searches."""
    url: Annotated[str, _one_of("http://", "https://")] | None = None
    """Address of the coordinator that commands use; None for one inside the command."""
    token: str | None = Field(default=None, repr=False)
    """API token that commands send to the coordinator. Hidden from logs: it is a secret."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity of log lines."""
    log_json: bool = False
    """True to log one JSON object per line instead of text."""

    @field_validator("redis_ca")
    @classmethod
    def _needs_tls(cls, file: Path | None, others: ValidationInfo) -> Path | None:
        urls = (others.data.get("redis_url"), others.data.get("worker_redis_url"))
        if file is not None and not any(str(url).startswith("rediss://") for url in urls):
            raise ValueError("needs a REEF_REDIS_URL that starts with rediss://; other addresses are not encrypted")
        return file

    @property
    def queue(self) -> str | None:
        """Address of the queue, with the authorities that verify its certificate; None for an embedded server."""
        if self.redis_url is None or self.redis_ca is None or not self.redis_url.startswith("rediss://"):
            return self.redis_url
        return f"{self.redis_url}{'&' if '?' in self.redis_url else '?'}ssl_ca_certs={quote(str(self.redis_ca))}"

    @property
    def measured_dir(self) -> Path:
        """Folder of results kept between measurements on this machine: times of baselines."""
        return self.data_dir / "measured"

    @property
    def workers_log(self) -> Path:
        """File that local workers log to."""
        return self.data_dir / "workers.log"

    @property
    def alone(self) -> bool:
        """True if no other coordinator can share archive and queue, because both are embedded."""
        return self.redis_url is None and (self.database_url is None or self.database_url.startswith("sqlite"))

    @property
    def closed(self) -> bool:
        """True if workers of other machines cannot reach the queue, because it is embedded and not published."""
        return self.redis_url is None and self.worker_redis_url is None

    @property
    def database(self) -> str:
        """Address of the archive: the setting, or SQLite in the data folder."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / DATABASE_FILE}"
