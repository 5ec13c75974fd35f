"""Time budget of a trace, as the traced process itself measures it; the sandbox enforces the deadline from outside."""

import time

from workers.protocol.job import BUSY

SHARE = 0.8
"""Share of the deadline for variants; the rest is for the reply, which may be megabytes."""


class TimeBudget:
    """Processor seconds of a trace; wall time counts too, divided by `BUSY`.

    Args:
        deadline_s: Limit of the job.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._began, self._used = time.perf_counter(), time.process_time()

    @property
    def spent_s(self) -> float:
        """Seconds spent so far."""
        return max(time.process_time() - self._used, (time.perf_counter() - self._began) / BUSY)

    def suffices(self, seconds: float) -> bool:
        """Return True if work of so many seconds still fits."""
        return self.spent_s + seconds <= SHARE * self._deadline_s
