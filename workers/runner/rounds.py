"""Timing a round: got ready first, then all samples enqueued without waiting, and what they took read off events.

A sample is: refill its slots, flush the cache, hold the card so that the host can queue what follows, start event, the
calls back to back, stop event; then what a stranger may have written is sealed, as it may not change any more. Calls on
several slots are one CUDA graph, so that no host stands between them.
"""

import gc
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from workers import driver
from workers.commands import PairSide, RunSlot, TimedRound, TimedSample, TimingRound
from workers.device_kernels import MOST_DELAYS, DeviceKernels, seal_key
from workers.errors import BadMessage
from workers.runner.filling import SlotFiller, SlotRefill
from workers.runner.graphs import RoundGraphs
from workers.runner.loaded_plans import LoadedPlan
from workers.runner.replay import Step

HOLD_US = 50.0
"""How long the card is held before the start event; the host queues both events and a graph in less."""
MOST_SAMPLES = MOST_DELAYS
"""Most samples of a round."""
SEAL_BYTES = 8
STEP_US = 5.0
"""How much longer for each step of a plan that is not in a graph; a launch takes the host about 3 us."""


@dataclass(frozen=True)
class _Stretch:
    """One sample, ready.

    Attributes:
        calls: How many it has.
        filled: Its slots, decoys among them.
        refill: What they are filled with.
        enqueue: What is timed.
        hold_us: How long the card is held before.
        sealed: (address, bytes, address of the seal) of all that is added up to its seal.
    """

    calls: int
    filled: tuple[RunSlot, ...]
    refill: SlotRefill
    enqueue: Step
    hold_us: float
    sealed: list[tuple[int, int, int]]


class TimedRounds:
    """Times rounds on one stream.

    Args:
        support: Kernels of ours.
        filler: Fills slots.
        stream: Where everything is enqueued.
    """

    def __init__(self, support: DeviceKernels, filler: SlotFiller, stream: int) -> None:
        self._support = support
        self._filler = filler
        self._stream = stream
        self._graphs = RoundGraphs(stream)
        self._events: list[driver.Handle] = []
        self._seals = driver.allocate(MOST_SAMPLES * SEAL_BYTES)
        self._key = 0
        self._warm: set[tuple[PairSide, int]] = set()
        self._ready: list[_Stretch] | None = None

    def prepare(self, order: TimingRound, entrants: Mapping[PairSide, LoadedPlan]) -> None:
        """Get a round ready: all that the host does beforehand, and what is new run once.

        Args:
            order: The round.
            entrants: The plans that it names.

        Raises:
            CannotRun: If the arena is too small for a slot.
            BadMessage: If the round contradicts itself.
            DriverError: If a run failed.
        """
        self._ready = None
        check_round(order)
        self._graphs.clear()
        self._warm_up(order, entrants)
        stretches = [
            self._stretch(order, number, sample, entrants[sample.side]) for number, sample in enumerate(order.samples)
        ]
        self._key = seal_key(order.seed)
        driver.set_bytes(self._stream, self._seals, 0, MOST_SAMPLES * SEAL_BYTES)
        self._filler.fill_zones((slot for stretch in stretches for slot in stretch.filled), order.seed)
        driver.synchronise(self._stream)
        self._ready = stretches

    def time(self) -> TimedRound:
        """Time the round that is ready, once.

        Raises:
            BadMessage: If none is.
            DriverError: If a run failed.
        """
        if self._ready is None:
            raise BadMessage("no round is ready to be timed")
        stretches, self._ready = self._ready, None
        driver.reset_persisting_cache()
        started = time.perf_counter()
        with _no_collection():
            events = [self._enqueue(stretch, number) for number, stretch in enumerate(stretches)]
        driver.synchronise(self._stream)
        wall_us = (time.perf_counter() - started) * 1e6
        samples_us = (driver.elapsed_us(*pair) / stretch.calls for pair, stretch in zip(events, stretches, strict=True))
        seals = struct.unpack(f"<{len(stretches)}q", driver.read(self._seals, len(stretches) * SEAL_BYTES))
        delays = self._support.delays(len(stretches))
        return TimedRound(
            samples_us=tuple(samples_us),
            wall_us=wall_us,
            starts_us=tuple(driver.elapsed_us(events[0][0], start) for start, _ in events),
            holds_us=tuple((delay.ended_ns - delays[0].ended_ns) / 1e3 for delay in delays),
            seals=seals,
            clocks_mhz=tuple(delay.clock_mhz for delay in delays),
        )

    def forget(self) -> None:
        """Let go of everything that belongs to bundles."""
        self._graphs.clear()
        self._warm.clear()
        self._ready = None

    def _warm_up(self, order: TimingRound, entrants: Mapping[PairSide, LoadedPlan]) -> None:
        """Run plans that are new here once: the driver loads code at its first use, and must not while it captures."""
        for sample in order.samples:
            key = (sample.side, order.plans[sample.side])
            if key not in self._warm:
                entrant, slot = entrants[sample.side], order.slots[sample.side][sample.slots[0]]
                call = entrant.loaded.bind(slot)
                self._filler.refill(self._filler.prepare(entrant, [slot], order.seed, sample.streams[:1]))
                call(self._stream)
                driver.synchronise(self._stream)
                self._warm.add(key)

    def _stretch(self, order: TimingRound, number: int, sample: TimedSample, entrant: LoadedPlan) -> _Stretch:
        filled = tuple(order.slots[sample.side][index] for index in sample.filled)
        slots = filled[: len(sample.slots)]
        refill = self._filler.prepare(entrant, filled, order.seed, sample.streams)
        seal = self._seals + number * SEAL_BYTES
        sealed = self._filler.written(entrant, filled, seal) if sample.side in order.strangers else []
        if len(slots) == 1:
            hold_us = HOLD_US + STEP_US * len(entrant.plan.steps)
            return _Stretch(1, filled, refill, entrant.loaded.bind(slots[0]), hold_us, sealed)
        graph = self._graphs.capture([entrant.loaded.bind(slot) for slot in slots])
        return _Stretch(len(slots), filled, refill, graph, HOLD_US, sealed)

    def _enqueue(self, stretch: _Stretch, number: int) -> tuple[driver.Handle, driver.Handle]:
        start, stop = self._pair(number)
        self._filler.refill(stretch.refill)
        self._support.flush(self._stream)
        self._support.delay(self._stream, stretch.hold_us, number)
        driver.record(start, self._stream)
        stretch.enqueue(self._stream)
        driver.record(stop, self._stream)
        self._support.sum_up(self._stream, stretch.sealed, self._key)
        return start, stop

    def _pair(self, number: int) -> tuple[driver.Handle, driver.Handle]:
        while len(self._events) < 2 * number + 2:
            self._events.append(driver.make_event())
        return self._events[2 * number], self._events[2 * number + 1]


def check_round(order: TimingRound) -> None:
    """Hold a round against itself.

    Raises:
        BadMessage: If a sample names a slot that is not there or was used before, or has streams for other slots; or
            there are too many samples.
    """
    if len(order.samples) > MOST_SAMPLES:
        raise BadMessage(f"a round has {len(order.samples)} samples, of {MOST_SAMPLES} at most")
    used: set[tuple[PairSide, int]] = set()
    for sample in order.samples:
        places = {(sample.side, index) for index in sample.filled}
        if sample.side not in order.plans or not sample.slots or len(sample.streams) != len(sample.filled):
            raise BadMessage(f"a sample of the {sample.side} lacks a plan, a slot or a stream")
        if not all(0 <= index < len(order.slots.get(sample.side, ())) for index in sample.filled):
            raise BadMessage(f"a sample of the {sample.side} names a slot that is not there")
        if len(places) < len(sample.filled) or places & used:
            raise BadMessage(f"a slot of the {sample.side} is used twice in a round")
        used |= places


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage is collected: a pause of the host between two events would be part of a sample."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
