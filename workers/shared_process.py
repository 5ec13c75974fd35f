"""A process that several others share: whoever needs it first starts it, and it ends when the last one has hung up.

It is nobody's child: who started it may end, and the others go on with it. Who calls holds a lock until the line
stands, and the process holds it while it ends, so that nobody is let in by one that ends.
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
from workers.commands import ChildBroken, Order, Reply
from workers.errors import BadMessage, Transient
from workers.sandbox.syscalls import fork

LOCK, DOOR = "lock", "door"
"""In the folder of a process: the lock, and the socket that it listens at."""
BEGUN = b"+"
"""Byte that a process writes once it listens."""
LOOK_S = 1.0
"""Seconds between two looks of a process that nobody has called yet, or has any longer, whether it may end."""
PATIENCE_S = 60.0
"""Seconds for a greeting, which others who call wait for as well: to open a card may take as long."""
_CREDENTIALS = struct.Struct("3i")


class SharedProcess(Protocol):
    """The process as one of those knows it who share it."""

    @property
    def greeting(self) -> Reply:
        """The first reply."""

    def answer(self, order: Order) -> Reply:
        """Carry out an order."""

    def leave(self) -> None:
        """Let go of what was there for this one alone."""


Receive = Callable[[], SharedProcess | ChildBroken]
"""Makes ready for one more; says what is wrong if that cannot be."""


class SharedConnection(ChildConnection):
    """A line to a process that others have lines to as well."""

    def __init__(self, folder: Path, receive: Receive) -> None:
        """Call the process of a folder; start it if there is none.

        Args:
            folder: Names the process; made if it is not there, for this user alone.
            receive: What it does for each of those who call.

        Raises:
            ChildDied: If it cannot be started.
            Transient: If the folder is somebody else's.
        """
        _require_own(folder)
        with _locked(folder):
            end = _called(folder / DOOR)
            if end is None:
                _begin(folder, receive)
                end = _called(folder / DOOR)
        if end is None:
            raise ChildDied("a process that is shared did not start")
        pid, _, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        super().__init__(end, pid)

    def ask(self, order: Order, timeout_s: float) -> Reply:
        """Give an order and wait for what comes back; a process that does not answer is ended for all.

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
    """Serve whoever calls at a door, until the last one has hung up, or an order could not be carried out.

    A process that failed is asked nothing more: what it holds may be what is broken, and the next who calls starts
    another.
    """
    with selectors.DefaultSelector() as lines:
        lines.register(door, selectors.EVENT_READ)
        while len(lines.get_map()) > 1 or not _may_end(door, folder):
            for line, _ in lines.select(LOOK_S):
                reply = _admit(door, receive, lines) if line.data is None else line.data.served()
                if isinstance(reply, ChildBroken):
                    return
                if reply is None:
                    lines.unregister(line.fileobj)
                    line.data.leave()


@dataclass(frozen=True)
class _Guest:
    """One of those who share the process."""

    channel: ChildChannel
    host: SharedProcess

    def served(self) -> Reply | None:
        """Answer its next command. Returns the reply; None if it hung up."""
        with suppress(BadMessage):
            order = self.channel.hear()
            return None if order is None else _told(self.channel, self.host.answer(order))
        return None

    def leave(self) -> None:
        """See it off."""
        self.channel.close()
        self.host.leave()


def _admit(door: socket.socket, receive: Receive, lines: selectors.BaseSelector) -> Reply:
    """Let in who calls; what it is told first."""
    channel, host = ChildChannel(door.accept()[0]), receive()
    if isinstance(host, ChildBroken):
        return _told(channel, host)
    lines.register(channel, selectors.EVENT_READ, _Guest(channel, host))
    return _told(channel, host.greeting)


def _told(channel: ChildChannel, reply: Reply) -> Reply:
    with suppress(OSError):  # Who has gone is seen off when its line is read.
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
            os.setsid()  # What ends us with all that is ours does not end it.
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
    """A line to who listens at a door; None if nobody does, or who did has just ended."""
    end = socket.socket(socket.AF_UNIX)
    try:
        end.connect(str(door))
        end.settimeout(PATIENCE_S)
        with suppress(TimeoutError):  # It is for who hears the greeting to say that it takes too long.
            if not end.recv(1, socket.MSG_PEEK):
                raise ConnectionRefusedError
        end.settimeout(None)
    except (FileNotFoundError, ConnectionError):
        end.close()
        return None
    return end


def _require_own(folder: Path) -> None:
    """Make a folder that is this user's alone.

    Raises:
        Transient: If there is something else in its place.
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
            fcntl.flock(lock, fcntl.LOCK_UN)  # Closing it would not do: who was forked meanwhile had it open as well.


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
