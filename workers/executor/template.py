"""The template of executors: a process that imports what executors need once, and forks one for each request.

    python -m workers.executor.template --with-parent PID       with a socket of a pool as standard input

Sixteen executors that import torch at once are ready after as long as one that imports it sixteen times. The template
serves each kind as soon as it has done what that kind needs, so a card is opened while it still warms up. It
has one thread, holds no secret and never opens a card. It runs no job, so each fork starts from the same clean state.
A fork is in a session of its own. It ends with the template, which ends with its pool, and with its worker.
"""

import argparse
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from workers.errors import WorkerError
from workers.executor.start import imported, run
from workers.executor_fork import STATUS, ReceivedRequest, receive
from workers.safe_python import PYTHON
from workers.sandbox.child import close_all_but
from workers.sandbox.syscalls import fork, tie_to

KIND = "both"
"""Kind of executor whose imports include those of all others."""
CARDS = "/dev/nvidia"
"""Beginning of the paths of the driver's device files. CUDA opens them first, and works in no fork of a process that
has. If a library asks for a card at its import, forks start as new processes."""


class ForkLoop:
    """Forks executors, kills those whose workers hang up, and tells workers how theirs ended.

    Attributes:
        has_card: True if this process had a card open when it forked the present process.
    """

    def __init__(self, requests: socket.socket, warming: Iterator[frozenset[str]]) -> None:
        """Prepare to serve.

        Args:
            requests: Socket of the pool.
            warming: Warms up by steps between requests; yields the kinds that may be forked from then on. At its end,
                all kinds may.
        """
        self.has_card = False
        self._requests = requests
        self._warming: Iterator[frozenset[str]] | None = warming
        self._warm: frozenset[str] = frozenset()
        self._waiting: list[ReceivedRequest] = []
        self._links: dict[int, socket.socket] = {}
        self._bell, self._wakeup = socket.socketpair()
        self._selector = selectors.PollSelector()
        for end in (self._bell, self._wakeup):
            end.setblocking(False)
        for end in (requests, self._wakeup):
            self._selector.register(end, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Serve until nobody can ask any more, and return None. Returns its arguments in each fork."""
        signal.set_wakeup_fd(self._bell.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready = [key.fileobj for key, _ in self._selector.select(None if self._warming is None else 0)]
            for pid in [pid for pid, link in self._links.items() if link in ready]:
                self._kill(pid)
            if self._wakeup in ready:
                self._wakeup.recv(1 << 12)
                self._reap()
            if self._requests in ready:
                request = receive(self._requests)
                if request is None:
                    return None
                self._waiting.append(request)
            elif not ready:
                self._warm_further()
            for request in self._servable():
                if self._fork(request) == 0:
                    return request.arguments

    def _warm_further(self) -> None:
        """Take the next step. If this machine fails in it, each fork meets that and tells its worker."""
        with suppress(WorkerError):
            if self._warming is not None and (kinds := next(self._warming, None)) is not None:
                self._warm |= kinds
                return
        self._warming = None

    def _servable(self) -> list[ReceivedRequest]:
        """Return the waiting requests that may be served now, and remove them."""
        found = [each for each in self._waiting if self._warming is None or {*each.arguments[:1]} & self._warm]
        self._waiting = [each for each in self._waiting if each not in found]
        self.has_card = bool(found) and has_opened()
        return found

    def _fork(self, request: ReceivedRequest) -> int:
        template, pid = os.getpid(), fork()
        if pid == 0:
            self._become(request, template)
            return 0
        os.close(request.stdin)
        os.close(request.stderr)
        self._links[pid] = link = socket.socket(fileno=request.link)
        self._selector.register(link, selectors.EVENT_READ)
        return pid

    def _become(self, request: ReceivedRequest, template: int) -> None:
        """Become the process that was asked for: its session, its files, the signals of a new process."""
        os.setsid()
        tie_to(template)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._requests, self._bell, self._wakeup, *self._links.values()):
            end.close()
        for source, target in ((request.stdin, 0), (request.stderr, 1), (request.stderr, 2)):
            os.dup2(source, target)
        close_all_but()

    def _kill(self, pid: int) -> None:
        """Kill a fork with its session. It is reaped later, so its id is not another process's."""
        self._selector.unregister(self._links[pid])
        with suppress(ProcessLookupError):  # It may have no session yet.
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for pid, link in list(self._links.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._links[pid]
                with suppress(KeyError):  # Its worker has hung up.
                    self._selector.unregister(link)
                with suppress(OSError):
                    link.sendall(STATUS.pack(status))
                link.close()


def has_opened(devices: str = CARDS) -> bool:
    """Return True if this process has a file open whose path begins so."""
    return any(str(path.resolve()).startswith(devices) for path in list(Path("/proc/self/fd").iterdir()))


def main() -> int:
    """Serve the pool that started this process. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.executor.template", description=__doc__.splitlines()[0])
    parser.add_argument("--with-parent", type=int, metavar="PID", help="end when this parent process ends")
    options = parser.parse_args()
    if options.with_parent is not None:
        tie_to(options.with_parent)
    loop = ForkLoop(socket.socket(fileno=sys.stdin.fileno()), imported(KIND).warm())
    arguments = loop.serve()
    if arguments is not None and loop.has_card:
        os.execv(PYTHON[0], [*PYTHON, "-m", "workers.executor", *arguments])
    if arguments is not None:
        run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
