"""CUDA graphs of calls on several slots: captured once, and kept as long as their slots may come again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from workers import driver
from workers.orders import Side, Slot
from workers.runner.replay import Step

MOST = 256
"""Graphs that are kept; beyond it all are forgotten. Two rounds of a race hold 32."""

Key: TypeAlias = tuple[Side, int, tuple[Slot, ...]]
"""A side, the position of its plan, and the slots in order."""


class Graphs:
    """Graphs by what they run.

    Args:
        stream: Where they are captured and launched.
    """

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._kept: dict[Key, driver.Handle] = {}

    def find(self, key: Key, bind: Callable[[], Sequence[Step]]) -> Step:
        """The graph of the calls that `bind` makes ready, to be enqueued; captured if there is none under that key.

        Raises:
            DriverError: If they cannot be captured.
        """
        if key not in self._kept:
            self._kept[key] = driver.capture(self._stream, partial(_enqueue, bind()))
        return partial(driver.launch_graph, self._kept[key])

    def trim(self) -> None:
        """Forget all if they are too many. None may be about to be launched."""
        if len(self._kept) > MOST:
            self.clear()

    def clear(self) -> None:
        """Forget all. None may still run."""
        while self._kept:
            driver.destroy_graph(self._kept.popitem()[1])


def _enqueue(calls: Sequence[Step], stream: int) -> None:
    for call in calls:
        call(stream)
