"""How much of a trace's deadline is spent, as far as the process can tell that is held to it from outside."""

import time

from workers.protocol.job import BUSY

SHARE = 0.8
"""Of the deadline, for variants; the rest is for the answer, which may be megabytes."""


class TimeBudget:
    """Seconds of a processor, or fewer where the clock runs out first.

    Args:
        deadline_s: What the job allows.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._began, self._used = time.perf_counter(), time.process_time()

    @property
    def spent_s(self) -> float:
        """Seconds so far."""
        return max(time.process_time() - self._used, (time.perf_counter() - self._began) / BUSY)

    def suffices(self, seconds: float) -> bool:
        """Whether there is time for something that takes so many seconds."""
        return self.spent_s + seconds <= SHARE * self._deadline_s
