"""Processes that serve orders, one JSON object a line each way; children of ours are forked, and die with us."""

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
"""Seconds that a child has to end by itself once its parent hangs up; closing a card's context takes 0.2 s."""
_CHUNK = 1 << 20


class ChildDied(Transient):
    """A child ended without an answer."""


class ChildSilent(Transient):
    """A child did not answer in time."""


class ChildChannel:
    """The serving process's end of a line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def fileno(self) -> int:
        """Its descriptor: to wait on it for an order."""
        return self._end.fileno()

    def orders(self) -> Iterator[Order]:
        """Orders as they come, until the other end hangs up, be it without hearing the last answer.

        Raises:
            BadMessage: If a line is no order.
        """
        while (order := self.hear()) is not None:
            yield order

    def hear(self) -> Order | None:
        """The next order, when it comes; None if the other end hung up.

        Raises:
            BadMessage: If a line is no order.
        """
        line = b""
        with suppress(ConnectionResetError):
            line = self._lines.readline()
        try:
            return ORDER.validate_json(line) if line else None
        except ValidationError as error:
            raise BadMessage(f"not an order: {error}") from error

    def answer(self, reply: Reply) -> None:
        """Say something to the other end.

        Raises:
            OSError: If it is gone.
        """
        self._end.sendall(REPLY.dump_json(reply) + b"\n")

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._end.close()


class ChildConnection:
    """The asking process's end of a line.

    Attributes:
        pid: Of the process at the other end.
    """

    def __init__(self, end: socket.socket, pid: int) -> None:
        self.pid = pid
        self._end = end
        self._heard = bytearray()

    def ask(self, order: Order, timeout_s: float) -> Reply:
        """Give an order and wait for what comes back.

        Raises:
            ChildDied: If it ended.
            ChildSilent: If there is no answer after `timeout_s` seconds.
            BadMessage: If the answer is no reply.
        """
        until = time.monotonic() + timeout_s
        self._send(ORDER.dump_json(order) + b"\n", until)
        return self.hear(max(0.0, until - time.monotonic()))

    def hear(self, timeout_s: float) -> Reply:
        """Wait for the next thing that it says.

        Raises:
            ChildDied: If it ended.
            ChildSilent: If there is nothing after `timeout_s` seconds.
            BadMessage: If it is no reply.
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
        """Have done with it at once. Idempotent."""
        self._end.close()

    def close(self) -> None:
        """Hang up. Idempotent."""
        self._end.close()

    @property
    def _fate(self) -> str:
        """The end of the process in words, as far as it is known here."""
        return "hung up"

    def _send(self, data: bytes, until: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(select.POLLOUT, until)
            try:
                view = view[self._end.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError:  # It is gone; its last words may still be heard.
                return

    def _wait(self, event: int, until: float) -> None:
        poller = select.poll()
        poller.register(self._end, event)
        if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
            raise ChildSilent(f"process {self.pid} does not answer")


class ForkedChild(ChildConnection):
    """A forked process, as its parent knows it."""

    def __init__(self, target: Callable[[ChildChannel], None]) -> None:
        """Fork.

        Args:
            target: What the child does; the process ends when it returns. It starts with standard input closed,
                standard output going to standard error, and no other descriptor of the parent's.

        Raises:
            OSError: If there can be no further process.
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
        """End it at once. Idempotent."""
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)
            self._bury()
        super().kill()

    def close(self) -> None:
        """Hang up, wait a moment for it to end by itself, then end it. Idempotent."""
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
        """Wait for its end, and remember how it was."""
        pid, status = os.waitpid(self.pid, flags)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"


def settle(work: Callable[[], None], *kept: int) -> NoReturn:
    """Be a process that was forked: leave everything of the parent's behind but descriptors `kept`, work, end."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal sends it to all; the parent decides.
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        close_all_but(*kept)
        gc.freeze()  # What came along is never garbage, and takes 0.15 s to look through.
        work()
        status = 0
    finally:
        try:
            os.write(2, traceback.format_exc().encode() if status else b"")
        finally:
            os._exit(status)


def _live(target: Callable[[ChildChannel], None], end: socket.socket, parent: int) -> NoReturn:
    """Be a child, which ends with its parent."""

    def work() -> None:
        die_with_parent(signal.SIGKILL)
        if os.getppid() == parent:
            target(ChildChannel(end))

    settle(work, end.fileno())
