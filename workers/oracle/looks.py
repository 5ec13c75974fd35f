"""One look at many runs: it ends when its time is up, and another goes on where it stopped.

While the oracle looks, no process can time on the card. Contents with known answers take microseconds each. One with an
unknown answer took 3 ms for a row-wise operator and over 100 ms for attention with nudged inputs, on an H100.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from workers.commands import InputContent
from workers.oracle.base import PlanRun

LOOK_S = 0.05
"""Seconds after which a look begins with no further contents. On an H100 with six searches, looks of up to 0.9 s made
all executors of the card wait."""


class ExaminedGroups:
    """Runs of one examination, grouped once for all looks at them.

    Attributes:
        runs: The runs.
        groups: Positions of the runs on each content, in the order of the contents' first runs.
    """

    def __init__(self, runs: Sequence[PlanRun]) -> None:
        alike: dict[tuple[str, InputContent], list[int]] = {}
        for index, run in enumerate(runs):
            alike.setdefault((run.plan.shape.key, run.content), []).append(index)
        self.runs, self.groups = runs, list(alike.values())


class Look:
    """The part of some runs that one look is at. Runs on equal content are in the same part.

    Attributes:
        unknown: Number of contents with unknown answers in the batches so far, for the next look to begin with.
    """

    def __init__(self, runs: ExaminedGroups, start: int, look_s: float, unknown: int = 1) -> None:
        """Prepare a look.

        Args:
            runs: All runs.
            start: Number of contents that were looked at before.
            look_s: Seconds after which it ends.
            unknown: Maximum number of contents with unknown answers in the first batch.
        """
        self._runs, self._groups = runs.runs, runs.groups
        self._at = start
        self._look_s = look_s
        self._most = max(1, unknown)
        self.unknown = 0

    @property
    def next(self) -> int | None:
        """Number of contents to start the next look with; None if all were looked at."""
        return self._at if self._at < len(self._groups) else None

    def batches(self, is_known: Callable[[PlanRun], bool]) -> Iterator[list[int]]:
        """Yield positions of runs of one plan each until the time is up, at least once unless nothing is left.

        Args:
            is_known: Returns True if the answer to a run is known. Such runs hardly take time: a batch has all of them
                up to a content with an unknown answer that is too many. Each batch may have twice as many unknown ones.
        """
        until = time.monotonic() + self._look_s
        while self._at < len(self._groups):
            yield self._batch(is_known)
            self._most *= 2
            if time.monotonic() >= until:
                return

    def _batch(self, is_known: Callable[[PlanRun], bool]) -> list[int]:
        batch: list[int] = []
        shape, left = self._first.plan.shape.key, self._most
        while self._at < len(self._groups) and self._first.plan.shape.key == shape:
            if not is_known(self._first):
                if not left:
                    break
                left -= 1
            batch += self._groups[self._at]
            self._at += 1
        self.unknown += self._most - left
        return sorted(batch)

    @property
    def _first(self) -> PlanRun:
        """The first run on the next content."""
        return self._runs[self._groups[self._at][0]]
