"""Turns on a card: whatever runs there while somebody times would be timed as well.

All processes of Kernelreef on a host take turns, whichever search they work for: any number look, load and check at
once, or one alone times. Two lock files a card say whose turn it is; the system lets go of them when a process ends.
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
STRETCH_S = 0.5
"""Seconds after which turns that follow each other are no longer one stretch, if somebody waits. Others have the card
for as long then: they take dozens of short turns where TorchInductor tunes without a break."""


class GpuLock:
    """Turns on one card.

    A turn within a turn takes its place until it is left; others may come between. A process that was forked needs an
    object of its own: locks belong to whoever opened the files.

    Args:
        card: What tells the card from all others of this host, such as its address on the bus.
        folder: Where the lock files are. Who sees another one, such as a container, takes no turns with the others.

    Attributes:
        waited_s: Seconds that were waited for turns.

    Raises:
        Transient: If there can be no such files.
    """

    def __init__(self, card: str, folder: Path = FOLDER) -> None:
        name = re.sub(r"\W", "-", card)
        self._gate = _opened(folder / f"kernelreef-{name}-gate.lock")
        self._room = _opened(folder / f"kernelreef-{name}-room.lock")
        self._how = fcntl.LOCK_UN
        self._since = 0.0
        # What comes after a turn that lingers, and who sees to it.
        self._after: int | None = None
        self._ending = threading.Timer(0.0, self._settle)
        self._mutex = threading.RLock()
        self.waited_s = 0.0

    def shared(self) -> AbstractContextManager[None]:
        """Wait until nobody times, and be one of many until it is left."""
        return self._held(fcntl.LOCK_SH)

    def exclusive(self, linger_s: float = 0.0) -> AbstractContextManager[None]:
        """Wait until nobody else uses the card, and keep all others out until it is left.

        Args:
            linger_s: Seconds for which others are kept out after that, unless this process wants another turn. One that
                it wants alone begins at once, or after a break where a stretch of `STRETCH_S` made others wait.
        """
        return self._held(fcntl.LOCK_EX, linger_s)

    def away(self) -> AbstractContextManager[None]:
        """Let others have the card until it is left. What this process started there must have ended."""
        return self._held(fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of everything. Idempotent."""
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
        """Return the seconds that others get before this process is alone again: as many as they were kept out.

        A stretch that nobody waits for counts from now on.
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
        """Be away for so long, also for those who want to be alone."""
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
        """Stay alone for so long, and have then what comes after."""
        self._ending.cancel()
        self._after, self._ending = after, threading.Timer(seconds, self._settle)
        self._ending.daemon = True
        self._ending.start()

    def _settle(self) -> None:
        """End what lingers."""
        with self._mutex:
            if self._after is not None:
                self._change(self._after)

    def _change(self, how: int) -> None:
        """Have another turn, or none; what lingers ends with it."""
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
            # Who waits for the room holds the gate: whoever comes later, be it one of many, does not get past them.
            fcntl.flock(self._gate, how)
            fcntl.flock(self._room, how)
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            self._how = how
            self._since = time.monotonic()
            self.waited_s += time.perf_counter() - begun


def _opened(path: Path) -> int:
    """A file that is there for its lock alone; another user's will do, for nothing is written."""
    plain = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with suppress(FileExistsError):
            made = os.open(path, plain | os.O_CREAT | os.O_EXCL)
            os.fchmod(made, 0o644)
            return made
        return os.open(path, plain)
    except OSError as error:
        raise Transient(f"turns on a card need a file: {error}") from error
