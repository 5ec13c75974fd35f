"""The GPU lock: work of another process would disturb a timing on the same card.

All processes of Kernelreef on a host share a card's lock, for all searches. Either any number of them load and check,
or one of them times alone. The lock consists of two lock files per card; the system releases them when a process ends.
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
MEMORY, BASELINES = "memory", "baselines"
"""Names of what one process at a time has of a card: more than its share of memory, and the measurement of baselines.
If several tuned at once, each time alone for a part of every second, nothing else would be measured."""
STRETCH_S = 0.5
"""Seconds of consecutive exclusive turns after which waiting processes get the card for as long. Without this break,
TorchInductor's tuning would keep out processes that need dozens of short turns."""


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
        self._gate, self._room = _lock_file(card, "gate", folder), _lock_file(card, "room", folder)
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
        for file in (self._gate, self._room):
            if file >= 0:
                os.close(file)
        self._gate = self._room = -1

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
        if self._is_wanted():
            return kept_s
        self._since = now
        return 0.0

    def _rest(self, seconds: float) -> None:
        """Release the card for some seconds, also to processes that wait for an exclusive turn."""
        self._change(fcntl.LOCK_UN)
        time.sleep(seconds)
        self.waited_s += seconds

    def _is_wanted(self) -> bool:
        """Return True if another process waits for this one to release the card: it holds the gate then."""
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return False

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
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        fcntl.flock(self._room, fcntl.LOCK_UN)
        if how != fcntl.LOCK_UN:
            begun = time.perf_counter()
            # A process that waits for the room holds the gate, so that no later one gets the room first.
            fcntl.flock(self._gate, how)
            fcntl.flock(self._room, how)
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            self._how = how
            self._since = time.monotonic()
            self.waited_s += time.perf_counter() - begun


class SoleUse:
    """The lock on something of one card that one process at a time has, such as most of its memory.

    Args:
        card: Unique name of the card on this host, as for `GpuLock`.
        what: Name of what it is: `MEMORY` or `BASELINES`.
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
