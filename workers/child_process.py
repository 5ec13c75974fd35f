"""Processes that serve commands, one JSON object per line each way; our children are forked, and die with us."""

import gc
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

from pydantic import ValidationError

from workers.commands import ORDER, REPLY, Order, Reply
from workers.errors import BadMessage, Transient
from workers.sandbox.child import close_all_but
from workers.sandbox.syscalls import die_with_parent, fork

FAREWELL_S = 2.0
"""Seconds that a child gets to exit after its parent hangs up; closing a card's context takes 0.2 s."""
_CHUNK = 1 << 20


class ChildDied(Transient):
    """A child process exited without an answer."""


class ChildSilent(Transient):
    """A child process did not answer in time."""


class ChildChannel:
    """The serving process's end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def fileno(self) -> int:
        """Return the descriptor, to wait on for a command."""
        return self._end.fileno()

    def orders(self) -> Iterator[Order]:
        """Yield commands until the other end hangs up, even if it did not read the last answer.

        Raises:
            BadMessage: If a line is not a command.
        """
        while (order := self.hear()) is not None:
            yield order

    def hear(self) -> Order | None:
        """Wait for the next command. Returns None if the other end hung up.

        Raises:
            BadMessage: If a line is not a command.
        """
        line = b""
        with suppress(ConnectionResetError):
            line = self._lines.readline()
        try:
            return ORDER.validate_json(line) if line else None
        except ValidationError as error:
            raise BadMessage(f"not a command: {error}") from error

    def answer(self, reply: Reply) -> None:
        """Send a reply.

        Raises:
            OSError: If the other end is gone.
        """
        self._end.sendall(REPLY.dump_json(reply) + b"\n")

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._end.close()


class ChildConnection:
    """The commanding process's end of a connection.

    Attributes:
        pid: Process id of the other end.
    """

    def __init__(self, end: socket.socket, pid: int) -> None:
        self.pid = pid
        self._end = end
        self._heard = bytearray()

    def ask(self, order: Order, timeout_s: float) -> Reply:
        """Send a command and wait for the reply.

        Raises:
            ChildDied: If the process exited.
            ChildSilent: If there is no answer after `timeout_s` seconds.
            BadMessage: If the answer is not a reply.
        """
        until = time.monotonic() + timeout_s
        self._send(ORDER.dump_json(order) + b"\n", until)
        return self.hear(max(0.0, until - time.monotonic()))

    def hear(self, timeout_s: float) -> Reply:
        """Wait for the next reply.

        Raises:
            ChildDied: If the process exited.
            ChildSilent: If there is no reply after `timeout_s` seconds.
            BadMessage: If the line is not a reply.
        """
        until = time.monotonic() + timeout_s
        while b"\n" not in self._heard:
            self._wait(select.POLLIN, until)
            try:
                chunk = self._end.recv(_CHUNK)
            except ConnectionError:
                chunk = b""
            if not chunk:
                self.kill()
                raise ChildDied(f"process {self.pid} {self._fate}")
            self._heard += chunk
        line, _, rest = self._heard.partition(b"\n")
        self._heard = rest
        try:
            return REPLY.validate_json(bytes(line))
        except ValidationError as error:
            raise BadMessage(f"not a reply: {error}") from error

    def kill(self) -> None:
        """Close the connection without a wait. Idempotent."""
        self._end.close()

    def close(self) -> None:
        """Hang up. Idempotent."""
        self._end.close()

    @property
    def _fate(self) -> str:
        """The end of the process in words, for error messages."""
        return "hung up"

    def _send(self, data: bytes, until: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(select.POLLOUT, until)
            try:
                view = view[self._end.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError:  # It is gone; its last reply may still be readable.
                return

    def _wait(self, event: int, until: float) -> None:
        poller = select.poll()
        poller.register(self._end, event)
        if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
            raise ChildSilent(f"process {self.pid} does not answer")


class ForkedChild(ChildConnection):
    """The parent's connection to a process that it forks."""

    def __init__(self, target: Callable[[ChildChannel], None]) -> None:
        """Fork.

        Args:
            target: Main function of the child, which exits when it returns. The child starts with standard input
                closed, standard output going to standard error, and no other descriptor of the parent's.

        Raises:
            OSError: If the system allows no further process.
        """
        ours, theirs = socket.socketpair()
        self._ended: str | None = None
        parent = os.getpid()
        pid = fork()
        if pid == 0:
            _live(target, theirs, parent)
        theirs.close()
        super().__init__(ours, pid)

    def kill(self) -> None:
        """Kill the process. Idempotent."""
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)
            self._bury()
        super().kill()

    def close(self) -> None:
        """Hang up, give the process a moment to exit, then kill it. Idempotent."""
        super().close()
        until = time.monotonic() + FAREWELL_S
        while self._ended is None and time.monotonic() < until:
            self._bury(os.WNOHANG)
            time.sleep(0.005)
        self.kill()

    @property
    def _fate(self) -> str:
        return self._ended or super()._fate

    def _bury(self, flags: int = 0) -> None:
        """Reap the process, and store how it ended."""
        pid, status = os.waitpid(self.pid, flags)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"


def settle(work: Callable[[], None], *kept: int) -> NoReturn:
    """Run `work` in a forked process, then exit. Drops all of the parent's descriptors except `kept`."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal sends it to every process; the parent decides.
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        close_all_but(*kept)
        gc.freeze()  # Inherited objects are never garbage, and a collection of them takes 0.15 s.
        work()
        status = 0
    finally:
        try:
            os.write(2, traceback.format_exc().encode() if status else b"")
        finally:
            os._exit(status)


def _live(target: Callable[[ChildChannel], None], end: socket.socket, parent: int) -> NoReturn:
    """Run a child, which dies with its parent."""

    def work() -> None:
        die_with_parent(signal.SIGKILL)
        if os.getppid() == parent:
            target(ChildChannel(end))

    settle(work, end.fileno())
