"""Head-to-head timing of contenders: graph against graph, from a cold cache, in a random order.

Every contender is captured into CUDA graphs of several calls, each call on another set of inputs. A sample is: flush
the cache, hold the card while the host queues the rest, start event, one graph, stop event.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil, log
from random import SystemRandom
from statistics import fmean

import torch

from workers.device_kernels import DeviceKernels

SAMPLE_US = 200.0
"""Target length of a sample: events resolve 0.5 us, a quarter of a per cent of it (evaluation protocol 3.3, step 2)."""
GRAPHS = 4
"""Number of graphs of each contender, over different sets in a different order: addresses alone shift times by 0.3
%."""
ROUNDS = 40
"""Number of rounds that count: the interval of a ratio is then 0.3 % wide at a deviation of 1 %."""
BRIEF_ROUNDS = 10
"""Number of rounds that count where a ratio is only compared with one: its interval is then 0.7 % wide."""
FLUSHED_CACHES = 2
"""Memory written between samples, in units of the L2 cache's size (evaluation protocol 3.3, step 3)."""
HOLD_US = 50.0
"""Microseconds that the card is held before the start event; the host needs less to queue a graph of 100 nodes."""
WARM_ROUNDS, MOST_WARM_ROUNDS = 5, 60
"""Number of rounds that must agree before any counts, and maximum number of such rounds."""
STEADY = 0.02
"""Largest spread of the rounds that must agree (evaluation protocol 3.3, step 5)."""

Samples = Mapping[str, Sequence[float]]
"""Microseconds per call by contender."""
Call = Callable[[int], object]
"""Runs a contender on the set of a number, on torch's current stream; its result keeps the memory alive."""


class Interlude:
    """The work between two samples: flush the cache, then hold the card.

    Args:
        support: Our own kernels on the card.
        l2_bytes: Size of the card's cache.
        device: The card.
    """

    def __init__(self, support: DeviceKernels, l2_bytes: int, device: torch.device) -> None:
        self._support = support
        self._memory = torch.zeros(FLUSHED_CACHES * l2_bytes // 4, dtype=torch.int32, device=device)

    def enqueue(self, stream: torch.cuda.Stream) -> None:
        """Evict everything from the cache by writes (decision 49), then hold the card."""
        with torch.cuda.stream(stream):
            self._memory.zero_()
        self._support.delay(stream.cuda_stream, HOLD_US)


class HeadToHead:
    """Contenders of one shape on one card.

    Args:
        interlude: The work between samples.
        stream: Stream that everything runs on.
        sets: Number of sets of inputs.
    """

    def __init__(self, interlude: Interlude, stream: torch.cuda.Stream, sets: int) -> None:
        self._interlude = interlude
        self._stream = stream
        self._sets = sets
        self._random = SystemRandom()
        # Intermediate values may share memory, because graphs are replayed one at a time. With memory of their own,
        # five graphs of an eager attention over 4096 positions would take 86 GB.
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[str, list[torch.cuda.CUDAGraph]] = {}
        self._calls: dict[str, int] = {}

    def enter(self, name: str, call: Call) -> None:
        """Add a contender: run it on every set, then capture it.

        Raises:
            RuntimeError: If it cannot be captured, or the card's memory is too small for it.
        """
        with self._current():
            for number in range(self._sets):
                call(number)
            self._stream.synchronize()
            alone, _ = self._capture(call, 1)
            single_us = min(self._time([(alone, 1)] * 3))
            calls = calls_for(single_us, self._sets)
            captured = [self._capture(call, calls) for _ in range(GRAPHS)]
            self._graphs[name] = [graph for graph, _ in captured]
            self._calls[name] = calls

    def run(self, rounds: int = ROUNDS, is_enough: Callable[[Samples], bool] | None = None) -> dict[str, list[float]]:
        """Time all contenders. Returns microseconds per call by name; equal positions are of one round.

        Args:
            rounds: Maximum number of rounds.
            is_enough: Ends the timing by what was measured so far, after `BRIEF_ROUNDS` rounds at the earliest. Without
                it all rounds are timed, and the host does nothing between them.
        """
        times: dict[str, list[float]] = {name: [] for name in self._graphs}
        with self._current():
            self._warm_up()
            for number in range(rounds):
                if is_enough and number >= BRIEF_ROUNDS and is_enough(times):
                    break
                for name, time_us in self._round().items():
                    times[name].append(time_us)
        return times

    def _warm_up(self) -> None:
        levels: list[float] = []
        while len(levels) < MOST_WARM_ROUNDS and not is_steady(levels):
            levels.append(fmean(log(time_us) for time_us in self._round().values()))

    def _round(self) -> dict[str, float]:
        order = self._random.sample(list(self._graphs), len(self._graphs))
        samples = [(self._random.choice(self._graphs[name]), self._calls[name]) for name in order]
        return dict(zip(order, self._time(samples), strict=True))

    def _time(self, samples: Sequence[tuple[torch.cuda.CUDAGraph, int]]) -> list[float]:
        """Replay graphs, each of a number of calls, one at a time. Returns microseconds per call."""
        events = []
        for graph, calls in samples:
            start, stop = _event(), _event()
            self._interlude.enqueue(self._stream)
            start.record(self._stream)
            graph.replay()
            stop.record(self._stream)
            events.append((start, stop, calls))
        self._stream.synchronize()
        return [start.elapsed_time(stop) * 1e3 / calls for start, stop, calls in events]

    def _capture(self, call: Call, calls: int) -> tuple[torch.cuda.CUDAGraph, list[object]]:
        """Capture a graph of calls on different sets, and their results, whose memory is not reused while held."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            kept = [call(number) for number in self._random.sample(range(self._sets), calls)]
        return graph, kept

    def _current(self) -> AbstractContextManager[None]:
        return torch.cuda.stream(self._stream)


def calls_for(single_us: float, sets: int) -> int:
    """Return the number of calls in a sample, if one takes `single_us` microseconds: no set is used twice."""
    return min(sets, max(1, ceil(SAMPLE_US / single_us)))


def is_steady(levels: Sequence[float]) -> bool:
    """Return True if the latest rounds, each given by the mean logarithm of its times, agree."""
    latest = levels[-WARM_ROUNDS:]
    return len(latest) == WARM_ROUNDS and max(latest) - min(latest) < STEADY


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
