"""Head-to-head timing of contenders: graph against graph, from a cold cache, in a random order.

Every contender is captured into CUDA graphs of several calls, each call on another set of inputs. A sample is: flush
the cache, hold the card while the host queues the rest, an untimed call, start event, one graph, stop event.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil, log
from random import SystemRandom
from statistics import fmean

import torch

from workers.device_kernels import DeviceKernels
from workers.timing import UNTIMED_BELOW_US

SAMPLE_US = 200.0
"""Target length of a sample: events resolve 0.5 us, a quarter of a per cent of it (evaluation protocol 3.3, step 2)."""
GRAPHS = 4
"""Number of graphs of each contender, over different sets in a different order: addresses alone shift times by 0.3
%."""
ROUNDS = 40
"""Number of rounds that count: the interval of a ratio is then 0.3 % wide at a deviation of 1 %."""
FLUSHED_CACHES = 2
"""Memory read between samples, in units of the L2 cache's size (evaluation protocol 3.3, step 3)."""
HOLD_US = 50.0
"""Microseconds that the card is held before the start event; the host needs less to queue a graph of 100 nodes."""
WARM_ROUNDS, MOST_WARM_ROUNDS = 5, 60
"""Number of rounds that must agree before any counts, and maximum number of such rounds."""
STEADY = 0.02
"""Largest spread of the rounds that must agree (evaluation protocol 3.3, step 5)."""

Call = Callable[[int], object]
"""Runs a contender on the set of a number, on torch's current stream; its result keeps the memory alive."""


@dataclass(frozen=True)
class Sample:
    """One sample: a call on a set of its own, if one goes before it, and the graph of its timed calls."""

    untimed: torch.cuda.CUDAGraph | None
    graph: torch.cuda.CUDAGraph
    calls: int


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
        """Evict everything from the cache, then hold the card.

        Memory is read, not written: written lines are flushed to memory while the sample runs, which took 2 % of
        samples of 200 us on an H200.
        """
        with torch.cuda.stream(stream):
            self._memory.sum()
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
        self._samples: dict[str, list[Sample]] = {}

    def enter(self, name: str, call: Call) -> None:
        """Add a contender: run it on every set, then capture it.

        Raises:
            RuntimeError: If it cannot be captured, or the card's memory is too small for it.
        """
        with self._current():
            for number in range(self._sets):
                call(number)
            self._stream.synchronize()
            first, *others = self._random.sample(range(self._sets), self._sets)
            alone, _ = self._capture(call, [first])
            single_us = min(self._time([Sample(None, alone, 1)] * 3))
            calls = calls_for(single_us, max(1, len(others)))
            untimed = alone if others and calls * single_us < UNTIMED_BELOW_US else None
            for _ in range(GRAPHS):
                graph, _ = self._capture(call, self._random.sample(others or [first], calls))
                self._samples.setdefault(name, []).append(Sample(untimed, graph, calls))

    def run(self, rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Time all contenders. Returns microseconds per call by name; equal positions are of one round."""
        times: dict[str, list[float]] = {name: [] for name in self._samples}
        with self._current():
            self._warm_up()
            for _ in range(rounds):
                for name, time_us in self._round().items():
                    times[name].append(time_us)
        return times

    def _warm_up(self) -> None:
        levels: list[float] = []
        while len(levels) < MOST_WARM_ROUNDS and not is_steady(levels):
            levels.append(fmean(log(time_us) for time_us in self._round().values()))

    def _round(self) -> dict[str, float]:
        order = self._random.sample(list(self._samples), len(self._samples))
        samples = [self._random.choice(self._samples[name]) for name in order]
        return dict(zip(order, self._time(samples), strict=True))

    def _time(self, samples: Sequence[Sample]) -> list[float]:
        """Time samples, one after the other. Returns microseconds per call."""
        events = []
        for sample in samples:
            start, stop = _event(), _event()
            self._interlude.enqueue(self._stream)
            if sample.untimed:
                sample.untimed.replay()
            start.record(self._stream)
            sample.graph.replay()
            stop.record(self._stream)
            events.append((start, stop, sample.calls))
        self._stream.synchronize()
        return [start.elapsed_time(stop) * 1e3 / calls for start, stop, calls in events]

    def _capture(self, call: Call, sets: Sequence[int]) -> tuple[torch.cuda.CUDAGraph, list[object]]:
        """Capture a graph of calls on sets, and their results, whose memory is not reused while held."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            kept = [call(number) for number in sets]
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
