"""What was found on a card, compared with what a user would run instead, while searches go on."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from math import ceil

from archive.records import Search
from benchmarks.figures import Row
from benchmarks.suites import Entry, Rates, floor_us, moved_bytes
from workers.baselines import BaselineProcess, measure_baselines
from workers.errors import WorkerError
from workers.protocol import Bundle, Device, Graph, Operator

COMPARE_S = 45.0
"""Seconds that a comparison takes, before one is known."""
REASON_CHARS = 500
Compare = Callable[[Entry, Sequence[Graph], Bundle], Row]
Note = Callable[[Entry, Row], None]


class Comparisons:
    """Comparisons of rows, which wait for each other and not for searches.

    Args:
        compares: Each compares one row at a time.
        note: Takes a row when all is known of it.
    """

    def __init__(self, compares: Sequence[Compare], note: Note) -> None:
        self._idle: asyncio.Queue[Compare] = asyncio.Queue()
        for compare in compares:
            self._idle.put_nowait(compare)
        self._count = len(compares)
        self._note = note
        self._begun: list[asyncio.Task[None]] = []
        self._taken_s: list[float] = []

    def begin(self, entry: Entry, search: Search, row: Row, best: Bundle) -> None:
        """Have the best kernel of a row compared when its turn comes."""
        self._begun.append(asyncio.create_task(self._compared(entry, search, row, best)))

    async def finish(self) -> None:
        """Wait for all that were begun."""
        await asyncio.gather(*self._begun)

    async def lessen(self) -> bool:
        """Wait for one of those that are not done; whether there was one."""
        left = self._left
        if left:
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        return bool(left)

    @property
    def ahead_s(self) -> float:
        """Seconds that those which are not done, and one more, are going to take."""
        one_s = statistics.median(self._taken_s or (COMPARE_S,))
        return one_s * ceil((len(self._left) + 1) / self._count)

    @property
    def _left(self) -> list[asyncio.Task[None]]:
        return [task for task in self._begun if not task.done()]

    async def _compared(self, entry: Entry, search: Search, row: Row, best: Bundle) -> None:
        graphs = [Graph.model_validate(graph) for graph in search.graphs]
        compare = await self._idle.get()
        begun = time.monotonic()
        try:
            found = await asyncio.to_thread(compare, entry, graphs, best)
        except (WorkerError, OSError, ValueError) as error:  # A row's figures, not those of all.
            found = {"reason": f"{type(error).__name__}: {error}"[:REASON_CHARS]}
        finally:
            self._idle.put_nowait(compare)
        taken_s = round(time.monotonic() - begun, 1)
        self._taken_s.append(taken_s)
        self._note(entry, {**row, **found, "compare_s": taken_s})


def figures_of(
    entry: Entry, graphs: Sequence[Graph], bundle: Bundle, *, device: Device, rates: Rates, process: BaselineProcess
) -> Row:
    """Times of a kernel and of all baselines, interleaved in one run, and what of the floor it reaches.

    Raises:
        BaselinesFailed: If they could not be measured.
    """
    operator = Operator.model_validate(entry.contract())
    reduced = bundle.reduced()
    found = measure_baselines(operator, graphs, reduced, device, process.ask, None, {})
    baseline = next(iter(found.values()))
    best, times = baseline.best(), {name: figure.time_us for name, figure in baseline.figures.items()}
    moved = moved_bytes(operator, dict(entry.dims), reduced.plans[0].outputs)
    least = floor_us(moved, entry.flops, rates)
    return {
        "reef_us": baseline.pacer_us,
        "reef_low_us": baseline.pacer_us * (1 - baseline.pacer_half_width),
        "reef_high_us": baseline.pacer_us * (1 + baseline.pacer_half_width),
        **{f"{name}_us": time_us for name, time_us in times.items()},
        "best_baseline": None if best is None else min(times, key=lambda name: baseline.figures[name].over_pacer),
        "over_best": None if best is None else best.over_pacer,
        "over_best_half_width": None if best is None else best.half_width,
        "moved_bytes": moved,
        "flops": entry.flops,
        "pairs": baseline.pairs,
        "skipped": baseline.skipped,
        "baselines_s": {name: round(seconds, 2) for name, seconds in baseline.spent_s.items()},
        "floor_us": least,
        "floor_share": least / baseline.pacer_us,
    }
