"""The template of executors: a process that imports what executors need once, and forks one for each request.

    python -m workers.executor.template --with-parent PID       with a socket of a pool as standard input

Sixteen executors that import torch at once are ready after as long as one that imports it sixteen times. The template
has one thread, holds no secret and never opens a card. It runs no job, so each fork starts from the same clean state.
A fork is in a session of its own. It ends with the template, which ends with its pool, and with its worker.
"""

import argparse
import os
import selectors
import signal
import socket
import sys
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
    """Forks executors, kills those whose workers hang up, and tells workers how theirs ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
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
            ready = [key.fileobj for key, _ in self._selector.select()]
            for pid in [pid for pid, link in self._links.items() if link in ready]:
                self._kill(pid)
            if self._wakeup in ready:
                self._wakeup.recv(1 << 12)
                self._reap()
            if self._requests in ready:
                request = receive(self._requests)
                if request is None or self._fork(request) == 0:
                    return None if request is None else request.arguments

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


def warm() -> None:
    """Import and run once what executors need. If this machine fails, each fork meets that and tells its worker."""
    with suppress(WorkerError):
        imported(KIND).warm()


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
    warm()
    opened = has_opened()
    arguments = ForkLoop(socket.socket(fileno=sys.stdin.fileno())).serve()
    if arguments is not None and opened:
        os.execv(PYTHON[0], [*PYTHON, "-m", "workers.executor", *arguments])
    if arguments is not None:
        run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
