"""Timing of a round: prepared first, then all samples enqueued without waiting, and their times read from events.

A sample is: refill its slots, flush the cache, hold the card so that the host can queue the rest, start event, the
calls back to back, stop event. Then everything that an untrusted side may have written gets a checksum, since it must
not change any more. Calls on several slots are one CUDA graph, so that no host time lies between them.
"""

import gc
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from workers import driver
from workers.commands import PairSide, RunSlot, TimedRound, TimedSample, TimingRound
from workers.device_kernels import MAX_DELAYS, DeviceKernels, checksum_key
from workers.errors import BadMessage
from workers.runner.filling import SlotFiller, SlotRefill
from workers.runner.loaded_plans import LoadedPlan
from workers.runner.replay import Step

HOLD_US = 50.0
"""Microseconds that the card is held before the start event; the host queues both events and a graph in less."""
MAX_SAMPLES = MAX_DELAYS
"""Maximum number of samples of a round."""
CHECKSUM_BYTES = 8
STEP_US = 5.0
"""Additional microseconds per step of a plan that is not in a graph; a launch takes the host about 3 us."""


@dataclass(frozen=True)
class _ReadySample:
    """One sample, ready.

    Attributes:
        calls: Number of calls.
        filled: Its slots, decoys included.
        refill: Content of the slots.
        enqueue: The timed step.
        hold_us: Microseconds that the card is held before it.
        summed: (address, bytes, address of the checksum) of all memory in its checksum.
    """

    calls: int
    filled: tuple[RunSlot, ...]
    refill: SlotRefill
    enqueue: Step
    hold_us: float
    summed: list[tuple[int, int, int]]


class RoundGraphs:
    """CUDA graphs of several calls each, captured and launched on one stream for one round."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._kept: list[driver.Handle] = []

    def capture(self, calls: Sequence[Step]) -> Step:
        """Capture calls, one after the other. Returns the step that enqueues them as one.

        Raises:
            DriverError: If they cannot be captured.
        """

        def enqueue(stream: int) -> None:
            for call in calls:
                call(stream)

        graph = driver.capture(self._stream, enqueue)
        self._kept.append(graph)
        return partial(driver.launch_graph, graph)

    def clear(self) -> None:
        """Destroy all graphs. None may still run."""
        while self._kept:
            driver.destroy_graph(self._kept.pop())


class TimedRounds:
    """Times rounds on one stream."""

    def __init__(self, support: DeviceKernels, filler: SlotFiller, stream: int) -> None:
        self._support = support
        self._filler = filler
        self._stream = stream
        self._graphs = RoundGraphs(stream)
        self._events: list[driver.Handle] = []
        self._checksums = driver.allocate(MAX_SAMPLES * CHECKSUM_BYTES)
        self._key = 0
        self._warm: set[tuple[PairSide, int]] = set()
        self._ready: list[_ReadySample] | None = None

    def prepare(self, order: TimingRound, loaded_plans: Mapping[PairSide, LoadedPlan]) -> None:
        """Prepare a round: do all host work in advance, and run new plans once.

        Raises:
            CannotRun: If the arena is too small for a slot.
            BadMessage: If the round is inconsistent.
            DriverError: If a run failed.
        """
        self._ready = None
        check_round(order)
        self._graphs.clear()
        self._warm_up(order, loaded_plans)
        samples = [
            self._make_ready(order, number, sample, loaded_plans[sample.side])
            for number, sample in enumerate(order.samples)
        ]
        self._key = checksum_key(order.seed)
        driver.set_bytes(self._stream, self._checksums, 0, MAX_SAMPLES * CHECKSUM_BYTES)
        self._filler.fill_zones((slot for ready in samples for slot in ready.filled), order.seed)
        driver.synchronise(self._stream)
        self._ready = samples

    def time(self) -> TimedRound:
        """Time the prepared round, once.

        Raises:
            BadMessage: If none is prepared.
            DriverError: If a run failed.
        """
        if self._ready is None:
            raise BadMessage("no round is prepared; send 'prepare' first")
        samples, self._ready = self._ready, None
        driver.reset_persisting_cache()
        started = time.perf_counter()
        with _no_collection():
            events = [self._enqueue(ready, number) for number, ready in enumerate(samples)]
        driver.synchronise(self._stream)
        wall_us = (time.perf_counter() - started) * 1e6
        samples_us = (driver.elapsed_us(*pair) / ready.calls for pair, ready in zip(events, samples, strict=True))
        checksums = struct.unpack(f"<{len(samples)}q", driver.read(self._checksums, len(samples) * CHECKSUM_BYTES))
        delays = self._support.delays(len(samples))
        return TimedRound(
            samples_us=tuple(samples_us),
            wall_us=wall_us,
            starts_us=tuple(driver.elapsed_us(events[0][0], start) for start, _ in events),
            holds_us=tuple((delay.ended_ns - delays[0].ended_ns) / 1e3 for delay in delays),
            checksums=checksums,
            clocks_mhz=tuple(delay.clock_mhz for delay in delays),
        )

    def drop(self) -> None:
        """Drop everything that belongs to bundles."""
        self._graphs.clear()
        self._warm.clear()
        self._ready = None

    def _warm_up(self, order: TimingRound, loaded_plans: Mapping[PairSide, LoadedPlan]) -> None:
        """Run new plans once: the driver loads code at its first use, and must not while it captures."""
        for sample in order.samples:
            key = (sample.side, order.plans[sample.side])
            if key not in self._warm:
                loaded_plan, slot = loaded_plans[sample.side], order.slots[sample.side][sample.slots[0]]
                call = loaded_plan.loaded.bind(slot)
                self._filler.refill(self._filler.prepare(loaded_plan, [slot], order.seed, sample.streams[:1]))
                call(self._stream)
                driver.synchronise(self._stream)
                self._warm.add(key)

    def _make_ready(
        self, order: TimingRound, number: int, sample: TimedSample, loaded_plan: LoadedPlan
    ) -> _ReadySample:
        filled = tuple(order.slots[sample.side][index] for index in sample.filled)
        slots = filled[: len(sample.slots)]
        refill = self._filler.prepare(loaded_plan, filled, order.seed, sample.streams)
        checksum = self._checksums + number * CHECKSUM_BYTES
        summed = self._filler.written(loaded_plan, filled, checksum) if sample.side in order.untrusted_sides else []
        if len(slots) == 1:
            hold_us = HOLD_US + STEP_US * len(loaded_plan.plan.steps)
            return _ReadySample(1, filled, refill, loaded_plan.loaded.bind(slots[0]), hold_us, summed)
        graph = self._graphs.capture([loaded_plan.loaded.bind(slot) for slot in slots])
        return _ReadySample(len(slots), filled, refill, graph, HOLD_US, summed)

    def _enqueue(self, ready: _ReadySample, number: int) -> tuple[driver.Handle, driver.Handle]:
        start, stop = self._pair(number)
        self._filler.refill(ready.refill)
        self._support.flush(self._stream)
        self._support.delay(self._stream, ready.hold_us, number)
        driver.record(start, self._stream)
        ready.enqueue(self._stream)
        driver.record(stop, self._stream)
        self._support.sum_up(self._stream, ready.summed, self._key)
        return start, stop

    def _pair(self, number: int) -> tuple[driver.Handle, driver.Handle]:
        while len(self._events) < 2 * number + 2:
            self._events.append(driver.make_event())
        return self._events[2 * number], self._events[2 * number + 1]


def check_round(order: TimingRound) -> None:
    """Check that a round is consistent.

    Raises:
        BadMessage: If a sample names a missing or used slot, its streams do not match its slots, or there are too many
            samples.
    """
    if len(order.samples) > MAX_SAMPLES:
        raise BadMessage(f"a round has {len(order.samples)} samples; the maximum is {MAX_SAMPLES}")
    used: set[tuple[PairSide, int]] = set()
    for sample in order.samples:
        places = {(sample.side, index) for index in sample.filled}
        if sample.side not in order.plans or not sample.slots or len(sample.streams) != len(sample.filled):
            raise BadMessage(f"a sample of the {sample.side} lacks a plan, a slot or a stream")
        if not all(0 <= index < len(order.slots.get(sample.side, ())) for index in sample.filled):
            raise BadMessage(f"a sample of the {sample.side} names a slot that does not exist")
        if len(places) < len(sample.filled) or places & used:
            raise BadMessage(f"a slot of the {sample.side} is used twice in a round")
        used |= places


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: a pause of the host between two events would be part of a sample."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
