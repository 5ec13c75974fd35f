"""CUDA graphs of calls on several slots: captured for one round, and gone with it."""

from collections.abc import Sequence
from functools import partial

from workers import driver
from workers.runner.replay import Step


class RoundGraphs:
    """Graphs of the round that is ready.

    Args:
        stream: Where they are captured and launched.
    """

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._kept: list[driver.Handle] = []

    def capture(self, calls: Sequence[Step]) -> Step:
        """Capture calls, one after the other; returns what enqueues them as one.

        Raises:
            DriverError: If they cannot be captured.
        """
        graph = driver.capture(self._stream, partial(_enqueue, calls))
        self._kept.append(graph)
        return partial(driver.launch_graph, graph)

    def clear(self) -> None:
        """Forget all. None may still run."""
        while self._kept:
            driver.destroy_graph(self._kept.pop())


def _enqueue(calls: Sequence[Step], stream: int) -> None:
    for call in calls:
        call(stream)
