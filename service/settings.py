"""Settings: what the environment may say, under the prefix `REEF_`. `docs/settings.md` explains each to a person."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

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


def _one_of(*prefixes: str) -> AfterValidator:
    def check(url: str) -> str:
        if not url.startswith(prefixes):
            raise ValueError(f"must start with one of: {', '.join(prefixes)}")
        return url

    return AfterValidator(check)


class Settings(BaseSettings):
    """What one coordinator, and the command line around it, needs to know. Without any setting all is embedded."""

    model_config = SettingsConfigDict(
        env_prefix="REEF_", env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
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
    """Address to serve on; only loopback until there is a login."""
    port: int = Field(default=8700, ge=0, le=65535)
    """Port to serve on; 0 lets the system choose."""
    local_workers: int = Field(default_factory=usable_cores, ge=0, le=1024)
    """Worker processes on this machine; 0 where workers run elsewhere."""
    in_flight_per_search: int = Field(default=8, ge=1, le=10_000)
    """Candidates of one search that may be on their way at once."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged."""
    log_json: bool = False
    """Log one JSON object a line instead of text."""

    @property
    def measured_dir(self) -> Path:
        """Folder of what measuring on this machine's cards leaves: figures of baselines, raw samples."""
        return self.data_dir / "measured"

    @property
    def database(self) -> str:
        """The archive's address: the one given, or SQLite in the data folder."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / DATABASE_FILE}"
