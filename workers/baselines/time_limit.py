"""Time limit for a block: max-autotune may try slow kernels for minutes, longer than a user would wait."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.5
"""Seconds until a block is interrupted again: autotuning may treat an interruption as a failed kernel, and try the next
one."""


@contextmanager
def at_most(seconds: float, excused_s: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
    """Interrupt a block that runs too long, at its next Python instruction. For the main thread only.

    An earlier alarm is delayed by the block's time.

    Args:
        seconds: Maximum time of the block.
        excused_s: Returns the seconds so far that do not count, such as waits for the card.

    Raises:
        TimeoutError: In the block, repeatedly, once the time is over. After the block, if it ended anyway, or with
            another error: libraries wrap this one in their own.
    """
    state = {"armed": True, "late": False}
    until = time.monotonic() + seconds - excused_s()

    def interrupt(number: int, frame: FrameType | None) -> None:
        left_s = until + excused_s() - time.monotonic()
        if state["armed"] and left_s > 0:
            signal.setitimer(signal.ITIMER_REAL, left_s, AGAIN_S)
        elif state["armed"]:
            state["late"] = True
            raise TimeoutError(f"it was not ready after {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, interrupt)
    left_s, again_s = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        try:
            yield
        finally:
            state["armed"] = False
            error = sys.exception()
            if state["late"] and (error is None or isinstance(error, Exception)):
                raise TimeoutError(f"it was not ready after {seconds:g} s") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left_s, again_s)
