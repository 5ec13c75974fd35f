"""A process that is told a line at a time and answers with lines, over a socket in place of its standard streams."""

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

from workers.executor_fork import ExecutorFork
from workers.safe_python import safe_environment

STDERR = 2
"""File descriptor of this process's standard error."""
CHUNK_BYTES = 1 << 18
"""Bytes moved at once: a socket's usual buffer."""


class SpawnedProcess(subprocess.Popen[bytes]):
    """A process in a session of its own."""

    def kill(self) -> None:
        """Kill it with its session. Idempotent."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)


class LineProcess:
    """A running process, in a session of its own, so that a Ctrl-C reaches only whoever started it."""

    def __init__(
        self,
        command: Sequence[str],
        complaints: IO[bytes] | int | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        duplex: bool = False,
        template: int | None = None,
    ) -> None:
        """Start a process.

        Args:
            command: Its command line.
            complaints: Destination of its standard error; this process's own if None.
            environment: Its environment; this process's own if None.
            duplex: True if it answers through its standard input, which is a socket. Its standard output then goes
                where its standard error goes, so that nothing that a library prints is taken for an answer.
            template: Socket to a template that forks the process; `command` is an executor's arguments then, the
                environment is the template's, and the process is duplex.

        Raises:
            ExecutorDied: If the template has ended.
        """
        self._link, theirs = socket.socketpair()
        with theirs:
            end, errors = theirs.fileno(), STDERR if complaints is None else complaints
            self._process: SpawnedProcess | ExecutorFork
            if template is not None:
                errors = errors if isinstance(errors, int) else errors.fileno()
                self._process = ExecutorFork(template, command, end, errors)
            else:
                self._process = SpawnedProcess(
                    command,
                    stdin=end,
                    stdout=errors if duplex else end,
                    stderr=errors,
                    env=safe_environment(os.environ if environment is None else environment),
                    start_new_session=True,
                )
        self._link.setblocking(False)
        self._outgoing = b""
        self._incoming = bytearray()

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """With which status it ended, negative for a signal; None as long as that is not known."""
        return self._process.returncode

    @property
    def is_sending(self) -> bool:
        """True if `hear` has something left to send."""
        return bool(self._outgoing)

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._link.fileno()

    def say(self, line: bytes) -> None:
        """Give it a line; `hear` carries it over."""
        self._outgoing += line + b"\n"

    def hear(self, timeout_s: float) -> bytes | None:
        """Exchange what can be exchanged within `timeout_s` seconds; with 0, what can be exchanged now.

        Returns:
            The next line if one came, without its end; else None.

        Raises:
            EOFError: If the process hung up.
            OSError: If it cannot be spoken to.
        """
        end = time.monotonic() + timeout_s
        while b"\n" not in self._incoming and self._exchange(max(0.0, end - time.monotonic())):
            if time.monotonic() > end:
                break
        if b"\n" not in self._incoming:
            return None
        line, _, self._incoming = self._incoming.partition(b"\n")
        return bytes(line)

    def close(self, farewell_s: float) -> None:
        """Hang up, so that it ends by itself; kill it if it has not within `farewell_s` seconds. Idempotent."""
        self._link.close()
        try:
            self._process.wait(farewell_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once, with everything in its session. Idempotent."""
        self._link.close()
        self.interrupt()
        self._process.wait()

    def interrupt(self) -> None:
        """Kill the process from another thread than the one in `hear`, which then raises EOFError. Idempotent."""
        self._process.kill()

    def _exchange(self, timeout_s: float) -> bool:
        """Read or write once, as soon as the process is ready for either. Returns False if it was not in time."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        with selectors.DefaultSelector() as selector:
            selector.register(self._link, wanted)
            ready = sum(events for _, events in selector.select(timeout_s))
        if ready & selectors.EVENT_READ:
            chunk = self._link.recv(CHUNK_BYTES)
            if not chunk:
                raise EOFError
            self._incoming += chunk
        elif ready & selectors.EVENT_WRITE:
            self._outgoing = self._outgoing[self._link.send(self._outgoing[:CHUNK_BYTES]) :]
        return bool(ready)
