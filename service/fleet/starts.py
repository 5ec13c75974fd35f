"""Starts of workers: a worker says through a pipe that it is ready, and one that ended before has failed to start."""

import os

FAILED_STARTS = 2
"""Failed starts in a row, per worker, before a kind of worker is said not to start."""


class Starts:
    """Starts of one kind of worker.

    Attributes:
        reason: How the last failed start ended.
    """

    def __init__(self, workers: int) -> None:
        """Prepare for so many workers that run at the same time, at least one."""
        self._workers = workers
        self._ready: dict[int, bool] = {}
        self._failed = 0
        self.reason = ""

    @property
    def failing(self) -> bool:
        """True if every worker of this kind failed several times in a row and none is ready."""
        self._look()
        return self._failed >= FAILED_STARTS * self._workers and not any(self._ready.values())

    @property
    def led(self) -> bool:
        """True if a worker of this kind is ready, or one failed to start."""
        self._look()
        return self._failed > 0 or any(self._ready.values())

    def begin(self) -> tuple[int, int]:
        """Make the pipe of one start; returns the end to read, which names the start, and the end that the worker gets.

        The caller closes the second once the worker has it.
        """
        start, theirs = os.pipe()
        os.set_blocking(start, False)
        self._ready[start] = False
        return start, theirs

    def end(self, start: int, reason: str) -> None:
        """Count a worker that ended by itself, and how."""
        self._look()
        self._failed = 0 if self._ready[start] else self._failed + 1
        self.reason = reason

    def close(self, start: int) -> None:
        """Release the pipe of a start whose worker is gone."""
        del self._ready[start]
        os.close(start)

    def _look(self) -> None:
        """Read from the pipes of workers that were not ready so far."""
        for start in [start for start, ready in self._ready.items() if not ready]:
            try:
                self._ready[start] = os.read(start, 1) != b""
            except BlockingIOError:
                continue
            if self._ready[start]:
                self._failed = 0
