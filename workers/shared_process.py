"""A process that several clients share: the first client starts it, and it ends when the last one has disconnected.

It is no child of the client that started it, so that one may end while others go on. A client holds a lock until it is
connected, and the process holds the same lock while it ends. So no client connects to a process that is ending.
"""

import fcntl
import os
import select
import selectors
import signal
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workers.child_process import ChildChannel, ChildConnection, ChildDied, ChildSilent, settle
from workers.commands import ChildBroken, DriverFault, Order, Reply
from workers.errors import BadMessage, Transient
from workers.sandbox.syscalls import fork

LOCK, DOOR = "lock", "door"
"""Names in a process's folder: the lock, and the socket that it listens at."""
BEGUN = b"+"
"""Byte that a process writes once it listens."""
LOOK_S = 1.0
"""Seconds after which a process without clients checks again if it may end."""
PATIENCE_S = 60.0
"""Maximum seconds to wait for a greeting: opening a card can take that long. Other new clients wait meanwhile."""
_CREDENTIALS = struct.Struct("3i")


class SharedProcess(Protocol):
    """One client's session within the process."""

    @property
    def greeting(self) -> Reply:
        """The first reply."""

    def answer(self, order: Order) -> Reply:
        """Carry out a command."""

    def leave(self) -> None:
        """Release the resources of this client alone."""


Receive = Callable[[], SharedProcess | ChildBroken]
"""Opens a session for one more client, or returns the reason why that is impossible."""


class SharedConnection(ChildConnection):
    """A client's connection to a shared process."""

    def __init__(self, folder: Path, receive: Receive) -> None:
        """Connect to the process of a folder; start it if there is none.

        Args:
            folder: Identifies the process; created if it does not exist, for this user alone.
            receive: Called in the process for each new client.

        Raises:
            ChildDied: If it cannot be started.
            Transient: If the folder belongs to another user.
        """
        _require_own(folder)
        with _locked(folder):
            end = _called(folder / DOOR)
            if end is None:
                _begin(folder, receive)
                end = _called(folder / DOOR)
        if end is None:
            raise ChildDied("a shared process did not start")
        pid, _, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        super().__init__(end, pid)

    def ask(self, order: Order, timeout_s: float) -> Reply:
        """Send a command and wait for the reply. A process that does not answer is killed, for all clients.

        Raises:
            ChildDied: If it ended.
            ChildSilent: If there is no answer after `timeout_s` seconds.
            BadMessage: If the answer is no reply.
        """
        try:
            return super().ask(order, timeout_s)
        except ChildSilent:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise


def serve(door: socket.socket, folder: Path, receive: Receive) -> None:
    """Serve all clients of a socket until the last one has disconnected, or a command failed.

    A process ends at its first failure, because its own state may be the cause. The next client starts another one.
    """
    with selectors.DefaultSelector() as lines:
        lines.register(door, selectors.EVENT_READ)
        while len(lines.get_map()) > 1 or not _may_end(door, folder):
            for line, _ in lines.select(LOOK_S):
                reply = _admit(door, receive, lines) if line.data is None else line.data.served()
                if isinstance(reply, ChildBroken | DriverFault):
                    return
                if reply is None:
                    lines.unregister(line.fileobj)
                    line.data.leave()


@dataclass(frozen=True)
class _Guest:
    """A connected client."""

    channel: ChildChannel
    session: SharedProcess

    def served(self) -> Reply | None:
        """Answer its next command. Returns the reply; None if it disconnected."""
        with suppress(BadMessage):
            order = self.channel.hear()
            return None if order is None else _told(self.channel, self.session.answer(order))
        return None

    def leave(self) -> None:
        """Close its connection and its session."""
        self.channel.close()
        self.session.leave()


def _admit(door: socket.socket, receive: Receive, lines: selectors.BaseSelector) -> Reply:
    """Accept a client. Returns the first reply to it."""
    channel, session = ChildChannel(door.accept()[0]), receive()
    if isinstance(session, ChildBroken):
        return _told(channel, session)
    lines.register(channel, selectors.EVENT_READ, _Guest(channel, session))
    return _told(channel, session.greeting)


def _told(channel: ChildChannel, reply: Reply) -> Reply:
    with suppress(OSError):  # A client that is gone is removed when its connection is read.
        channel.answer(reply)
    return reply


def _may_end(door: socket.socket, folder: Path) -> bool:
    """Return True, with the socket closed, if no client is about to connect."""
    with _opened(folder / LOCK) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if select.select([door], [], [], 0)[0]:
            return False
        door.close()
        return True


def _begin(folder: Path, receive: Receive) -> None:
    """Start the process, and wait until it listens."""
    (folder / DOOR).unlink(missing_ok=True)
    heard, said = os.pipe()
    between = fork()
    if between == 0:
        try:
            os.setsid()  # A signal to our process group must not end it.
            if fork() == 0:
                settle(lambda: _listen(folder, receive, said), said)
        finally:
            os._exit(0)
    os.close(said)
    os.waitpid(between, 0)
    with os.fdopen(heard, "rb") as begun:
        begun.read(len(BEGUN))


def _listen(folder: Path, receive: Receive, said: int) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / DOOR))
        door.listen()
        os.write(said, BEGUN)
        os.close(said)
        serve(door, folder, receive)


def _called(door: Path) -> socket.socket | None:
    """Connect to a socket; None if no process listens at it, or the process has just ended."""
    end = socket.socket(socket.AF_UNIX)
    try:
        end.connect(str(door))
        end.settimeout(PATIENCE_S)
        with suppress(TimeoutError):  # The reader of the greeting reports that it takes too long.
            if not end.recv(1, socket.MSG_PEEK):
                raise ConnectionRefusedError
        end.settimeout(None)
    except (FileNotFoundError, ConnectionError):
        end.close()
        return None
    return end


def _require_own(folder: Path) -> None:
    """Create a folder for this user alone, unless it exists.

    Raises:
        Transient: If the path is something else, or accessible to other users.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Transient(f"{folder} should be a folder of this user alone")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with _opened(folder / LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # Closing is not enough: a process forked meanwhile has it open too.


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
