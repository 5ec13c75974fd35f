"""An end to patience: max-autotune may try slow kernels for minutes, and nobody would wait for that."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.5
"""Seconds until a block is interrupted again: autotuning may take an interruption for a kernel that failed, and try the
next one."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt a block that runs longer, at its next Python instruction. For the main thread only.

    An alarm that was set before comes later by what the block took.

    Raises:
        TimeoutError: In the block, once the time is over, again and again; libraries may wrap it into an error of
            theirs. After the block, if it ended all the same.
    """
    state = {"armed": True, "late": False}

    def interrupt(number: int, frame: FrameType | None) -> None:
        if state["armed"]:
            state["late"] = True
            raise TimeoutError(f"it was not ready after {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, interrupt)
    left_s, again_s = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        try:
            yield
        finally:
            state["armed"] = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left_s, again_s)
    if state["late"]:
        raise TimeoutError(f"it was not ready after {seconds:g} s")
