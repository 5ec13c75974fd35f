"""A block that takes too long is interrupted, however often it goes on; one that does not is left alone."""

import signal
import time
from contextlib import suppress

import pytest

from workers.baselines.time_limit import at_most


def test_a_slow_block_is_interrupted():
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"after 0\.1 s"), at_most(0.1):
        time.sleep(30)
    assert time.monotonic() - started < 10


def test_a_block_that_takes_interruptions_for_something_else_is_interrupted_again():
    tried = []
    with pytest.raises(TimeoutError, match=r"after 0\.1 s"), at_most(0.1):
        for kernel in range(3):
            with suppress(OSError):
                tried.append(kernel)
                time.sleep(30)
    assert tried == [0, 1, 2]


def test_an_error_that_wraps_the_interruption_is_told_as_what_it_is():
    with pytest.raises(TimeoutError, match=r"after 0\.1 s"), at_most(0.1):
        try:
            time.sleep(30)
        except TimeoutError as error:
            raise RuntimeError("tuning failed") from error


def test_what_is_excused_does_not_count():
    begun = time.monotonic()
    with at_most(0.1, lambda: min(0.3, time.monotonic() - begun)):
        time.sleep(0.2)
    begun = time.monotonic()
    with pytest.raises(TimeoutError), at_most(0.1, lambda: min(0.3, time.monotonic() - begun)):
        time.sleep(30)
    assert 0.4 <= time.monotonic() - begun < 10


def test_nothing_happens_to_a_quick_block_nor_after_it():
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    with at_most(0.2):
        pass
    time.sleep(0.3)
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0) == before
