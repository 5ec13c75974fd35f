"""An executor that the template forked, as its worker sees it, and the request for one.

All workers of a pool share one socket to the template (`workers.executor.template`). A request is one message: the
executor's arguments as JSON, and three descriptors: its standard input, its standard error, and a link. Through the
link the template sends the wait status. If the worker shuts it down or ends, the template kills the executor.
"""

import json
import os
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from workers.errors import ExecutorDied

STATUS = struct.Struct("i")
"""Message of the template: an executor's wait status."""
_REQUEST_BYTES = 1 << 16
_DESCRIPTORS = 3


class ExecutorFork:
    """A running executor, with the methods of `subprocess.Popen` that a `LineProcess` needs."""

    def __init__(self, template: int, arguments: Sequence[str], stdin: int, stderr: int) -> None:
        """Ask for a fork.

        Args:
            template: Descriptor of the socket to the template.
            arguments: Arguments of the executor, its kind first.
            stdin: Descriptor of its standard input.
            stderr: Descriptor of its standard error; its standard output goes there too.

        Raises:
            ExecutorDied: If the template has ended.
        """
        self.returncode: int | None = None
        self._link, theirs = socket.socketpair()
        with theirs, socket.socket(fileno=os.dup(template)) as requests:
            try:
                socket.send_fds(requests, [json.dumps(arguments).encode()], [stdin, stderr, theirs.fileno()])
            except OSError as error:
                self._link.close()
                raise ExecutorDied("the template of the executors has ended") from error

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return the exit status.

        Raises:
            TimeoutExpired: If it has not ended within `timeout` seconds.
        """
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("executor", timeout or 0.0)
        return status

    def kill(self) -> None:
        """Have the template kill it, with its whole session. Idempotent."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)

    def _status(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], timeout_s)[0]:
            told = b""
            with suppress(ConnectionError):
                told = self._link.recv(STATUS.size)
            # A template that ends takes its forks along.
            self.returncode = os.waitstatus_to_exitcode(*STATUS.unpack(told)) if told else -signal.SIGKILL
            self._link.close()
        return self.returncode


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as the template receives it, with the descriptors that it owns from then on."""

    arguments: list[str]
    stdin: int
    stderr: int
    link: int


def receive(requests: socket.socket) -> ReceivedRequest | None:
    """Receive the next request; None if nobody can ask any more."""
    message, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _DESCRIPTORS)
    return ReceivedRequest(json.loads(message), *descriptors) if message else None
