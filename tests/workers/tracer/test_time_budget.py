"""What is left of a deadline, by the processor and by the clock."""

import time

from workers.protocol.job import BUSY
from workers.tracer.time_budget import SHARE, TimeBudget


def test_what_is_left_is_enough_for_less():
    allowance = TimeBudget(100.0)
    assert allowance.suffices(SHARE * 100.0 - 5.0) and not allowance.suffices(SHARE * 100.0)


def test_work_is_counted_by_the_processor():
    allowance, began = TimeBudget(100.0), time.process_time()
    while time.process_time() - began < 0.05:
        pass
    assert 0.05 <= allowance.spent_s < 10.0


def test_waiting_is_counted_by_the_clock_and_less():
    allowance, began = TimeBudget(100.0), time.perf_counter()
    time.sleep(0.2)
    assert 0.2 / BUSY <= allowance.spent_s <= time.perf_counter() - began
