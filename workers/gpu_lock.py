"""The locks of a card, which all processes of Kernelreef on a host share for all searches.

The GPU lock: either any number of processes load and check, or one of them times alone, because work of another one
would disturb it. The memory lock: either any number of processes have memory on the card, or one of them alone. A lock
consists of lock files per card; the system releases them when a process ends.
"""

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from workers.errors import Transient

FOLDER = Path("/dev/shm")
"""Folder of the lock files: every Linux has it, all users may write to it, and no service cleans it up."""
LARGE, BASELINES = "large", "baselines"
"""Names of what one process at a time has of a card: more than its share of memory, and the measurement of baselines.
If several tuned at once, each time alone for a part of every second, nothing else would be measured."""
STRETCH_S = 0.5
"""Seconds of consecutive exclusive turns after which waiting processes get the card for as long. Without this break,
TorchInductor's tuning would keep out processes that need dozens of short turns."""


class _FairLock:
    """A lock that processes share, or that one process has alone. A process that waits holds back later ones."""

    def __init__(self, card: str, gate: str, room: str, folder: Path) -> None:
        self._gate, self._room = _lock_file(card, gate, folder), _lock_file(card, room, folder)

    def change(self, how: int) -> None:
        """Release it, and wait until it can be held in another way: `LOCK_SH`, `LOCK_EX`; or not at all, `LOCK_UN`."""
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        fcntl.flock(self._room, fcntl.LOCK_UN)
        if how != fcntl.LOCK_UN:
            # A process that waits for the room holds the gate, so that no later one gets the room first.
            fcntl.flock(self._gate, how)
            fcntl.flock(self._room, how)
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def is_wanted(self, how: int) -> bool:
        """Return True if another process waits for the lock and keeps out those that want to hold it this way."""
        try:
            fcntl.flock(self._gate, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Release it and close the files. Idempotent."""
        for file in (self._gate, self._room):
            if file >= 0:
                os.close(file)
        self._gate = self._room = -1


class GpuLock:
    """The lock of one card.

    A nested turn replaces the outer one until it ends; other processes may get the card in between. A forked process
    needs an object of its own, because file locks belong to the process that opened the files.

    Args:
        card: Unique name of the card on this host, such as its address on the bus.
        folder: Folder of the lock files. Processes with another folder, such as a container's, do not share the lock.

    Attributes:
        waited_s: Total seconds of waiting for the lock.

    Raises:
        Transient: If the files cannot be created.
    """

    def __init__(self, card: str, folder: Path = FOLDER) -> None:
        self._lock = _FairLock(card, "gate", "room", folder)
        self._how = fcntl.LOCK_UN
        self._since = 0.0
        # State after a lingering turn, and the timer that changes to it.
        self._after: int | None = None
        self._ending = threading.Timer(0.0, self._settle)
        self._mutex = threading.RLock()
        self.waited_s = 0.0

    def shared(self) -> AbstractContextManager[None]:
        """Wait until no process times, then share the card with others until the context ends."""
        return self._held(fcntl.LOCK_SH)

    def exclusive(self, linger_s: float = 0.0) -> AbstractContextManager[None]:
        """Wait until no other process uses the card, and keep all others out until the context ends.

        Args:
            linger_s: Seconds for which others are kept out after that, unless this process takes another turn. Another
                exclusive turn starts at once, or after a break if others waited for longer than `STRETCH_S`.
        """
        return self._held(fcntl.LOCK_EX, linger_s)

    def away(self) -> AbstractContextManager[None]:
        """Release the card until the context ends. This process's work on the card must be complete."""
        return self._held(fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the files. Idempotent."""
        self._ending.cancel()
        self._settle()
        self._lock.close()

    @contextmanager
    def _held(self, how: int, linger_s: float = 0.0) -> Iterator[None]:
        with self._mutex:
            before = self._how if self._after is None else self._after
            break_s = self._break_s() if how == fcntl.LOCK_EX else 0.0
            if how != fcntl.LOCK_EX:
                self._settle()
        try:
            if break_s:
                self._rest(break_s)
            self._change(how)
            yield
        finally:
            with self._mutex:
                if linger_s and self._how == fcntl.LOCK_EX:
                    self._linger(before, linger_s)
                else:
                    self._change(before)

    def _break_s(self) -> float:
        """Return the seconds that others get before the next exclusive turn: as many as they were kept out.

        If no process waits, the count of consecutive turns starts anew.
        """
        now = time.monotonic()
        kept_s = now - self._since
        if self._after is None or kept_s <= STRETCH_S:
            return 0.0
        if self._lock.is_wanted(fcntl.LOCK_EX):
            return kept_s
        self._since = now
        return 0.0

    def _rest(self, seconds: float) -> None:
        """Release the card for some seconds, also to processes that wait for an exclusive turn."""
        self._change(fcntl.LOCK_UN)
        time.sleep(seconds)
        self.waited_s += seconds

    def _linger(self, after: int, seconds: float) -> None:
        """Keep the exclusive lock for some seconds, then change to the state `after`."""
        self._ending.cancel()
        self._after, self._ending = after, threading.Timer(seconds, self._settle)
        self._ending.daemon = True
        self._ending.start()

    def _settle(self) -> None:
        """End a lingering turn."""
        with self._mutex:
            if self._after is not None:
                self._change(self._after)

    def _change(self, how: int) -> None:
        """Change to another state of the lock, and end a lingering turn."""
        with self._mutex:
            self._after = None
            self._take(how)

    def _take(self, how: int) -> None:
        if how == self._how != fcntl.LOCK_UN:
            return
        self._how = fcntl.LOCK_UN
        begun = time.perf_counter()
        self._lock.change(how)
        if how != fcntl.LOCK_UN:
            self._how = how
            self._since = time.monotonic()
            self.waited_s += time.perf_counter() - begun


class MemoryLock:
    """The lock of one card's memory: held by each process with memory there, or by one that has the card alone.

    It is held for longer than a job. So a process that holds it looks often if it `is_wanted`, and then gives up its
    memory and the lock. Take it before the GPU lock, never while holding that.

    Args:
        card: Unique name of the card on this host, as for `GpuLock`.
        folder: Folder of the lock files.

    Raises:
        Transient: If the files cannot be created.
    """

    def __init__(self, card: str, folder: Path = FOLDER) -> None:
        self._lock = _FairLock(card, "memory-gate", "memory-room", folder)
        self._how = fcntl.LOCK_UN

    @property
    def is_alone(self) -> bool:
        """True if this process holds it alone."""
        return self._how == fcntl.LOCK_EX

    @property
    def is_wanted(self) -> bool:
        """True if this process holds it, and another one waits until it no longer does."""
        return self._how != fcntl.LOCK_UN and self._lock.is_wanted(self._how)

    def share(self) -> None:
        """Wait until no process has the card alone or waits for that, then share it. Does nothing if it is held."""
        if self._how == fcntl.LOCK_UN:
            self._change(fcntl.LOCK_SH)

    def take(self) -> None:
        """Release it, and wait until no other process has memory on the card. Does nothing if it is held alone."""
        if not self.is_alone:
            self._change(fcntl.LOCK_EX)

    def release(self) -> None:
        """Release it. Idempotent."""
        self._change(fcntl.LOCK_UN)

    def close(self) -> None:
        """Release it and close the files. Idempotent."""
        self._lock.close()
        self._how = fcntl.LOCK_UN

    def _change(self, how: int) -> None:
        self._how = fcntl.LOCK_UN
        self._lock.change(how)
        self._how = how


class SoleUse:
    """The lock on something of one card that one process at a time has, such as most of its memory.

    Args:
        card: Unique name of the card on this host, as for `GpuLock`.
        what: Name of what it is: `LARGE`, or `BASELINES`, for further turns with a number.
        folder: Folder of the lock file.

    Raises:
        Transient: If the file cannot be created.
    """

    def __init__(self, card: str, what: str, folder: Path = FOLDER) -> None:
        self._file = _lock_file(card, what, folder)

    def take(self) -> None:
        """Wait until no other process holds it. Idempotent."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release it. Idempotent."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release it and close the file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _lock_file(card: str, what: str, folder: Path) -> int:
    name = re.sub(r"\W", "-", card)
    return _opened(folder / f"kernelreef-{name}-{what}.lock")


def _opened(path: Path) -> int:
    """Open or create a lock file. Another user's file will do, since nothing is written to it."""
    plain = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with suppress(FileExistsError):
            made = os.open(path, plain | os.O_CREAT | os.O_EXCL)
            os.fchmod(made, 0o644)
            return made
        return os.open(path, plain)
    except OSError as error:
        raise Transient(f"the GPU lock needs a file: {error}") from error
