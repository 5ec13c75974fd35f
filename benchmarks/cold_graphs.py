"""Cold samples and CUDA graphs of two sides in turn, for `benchmarks.independent_harness`.

It needs torch and triton, and nothing of Kernelreef.
"""

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

Call = Callable[[], Any]
L2_TIMES = 2
"""Bytes that a flush touches, and that untimed calls move, over the size of the L2 cache."""
TRIES = 5
"""Times that a sample is tried if the host is late."""
FLUSH_BLOCK = 4096
"""Words that a program of the flush writes."""
L2_BYTES = 50 * 2**20
"""L2 cache of an H100 and an H200, if torch does not say."""
NORMAL = 1.96
WARM_UPS = 3


@triton.jit  # type: ignore[untyped-decorator]
def flush_kernel(buffer: tl.tensor, block: tl.constexpr) -> None:
    """Write zeros, a block per program."""
    tl.store(buffer + tl.program_id(0).to(tl.int64) * block + tl.arange(0, block), 0)


class Flush:
    """Empties a card's L2 cache; on a CPU it does nothing."""

    def __init__(self, device: str) -> None:
        self._buffer, self.bytes = None, L2_TIMES * L2_BYTES
        if device != "cpu":
            self.bytes = L2_TIMES * int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", L2_BYTES))
            self._blocks = math.ceil(self.bytes / (4 * FLUSH_BLOCK))
            self._buffer = torch.zeros(self._blocks * FLUSH_BLOCK, dtype=torch.int32, device=device)
            self._driver = ctypes.CDLL("libcuda.so.1")

    def __call__(self) -> None:
        """Write twice the cache."""
        if self._buffer is not None:
            flush_kernel[(self._blocks,)](self._buffer, FLUSH_BLOCK)

    def release(self) -> None:
        """Make lines that were to persist in the cache ordinary ones.

        Raises:
            RuntimeError: If the driver refuses.
        """
        if self._buffer is not None and (status := self._driver.cuCtxResetPersistingL2Cache()):
            raise RuntimeError(f"the driver does not release persisting lines: status {status}")


def graphed(calls: Sequence[Call], device: str, *, plain: bool = False) -> Call:
    """Return a call that does calls in turn; on a card it is a graph, torch's or a plain one of the driver."""
    if device == "cpu" or not calls:
        return lambda: [call() for call in calls]
    graph, kept = torch.cuda.CUDAGraph(keep_graph=plain), list[Any]()
    with torch.cuda.graph(graph):
        kept += [call() for call in calls]  # Each result has memory of its own, as each input has.
    launch = PlainGraph(graph) if plain else graph.replay

    def replay(kept: list[Any] = kept) -> None:
        launch()

    return replay


class PlainGraph:
    """A captured graph, instantiated by the driver without flags, and uploaded.

    Args:
        graph: A graph of torch that is kept, which owns the memory of its results.

    Raises:
        RuntimeError: If the driver refuses.
    """

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph, self._driver = graph, ctypes.CDLL("libcuda.so.1")
        self._stream, self._executable = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.c_void_p()
        flags, captured = ctypes.c_ulonglong(0), ctypes.c_void_p(graph.raw_cuda_graph())
        self._done(self._driver.cuGraphInstantiateWithFlags(ctypes.byref(self._executable), captured, flags))
        self._done(self._driver.cuGraphUpload(self._executable, self._stream))

    def __call__(self) -> None:
        """Launch it."""
        self._done(self._driver.cuGraphLaunch(self._executable, self._stream))

    def _done(self, status: int) -> None:
        if status:
            raise RuntimeError(f"the driver refuses a graph: status {status}")


def warmed_up(function: Callable[..., Any], copy: Sequence[Any], device: str) -> None:
    """Compile a kernel, so that a graph can be captured afterwards.

    It runs on the stream on which its inputs are drawn. On another one it would read them before they are there, and
    take whatever lies there for a target.
    """
    for _ in range(WARM_UPS):
        function(*copy)
    if device != "cpu":
        torch.cuda.synchronize()


def elapsed_us(before: Call, call: Call, device: str) -> tuple[float, bool]:
    """Return the microseconds of a call on its device, after another one; and True if the host queued it in time."""
    if device == "cpu":
        before()
        begun = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - begun), True
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before()
    begin.record()
    call()
    punctual = not begin.query()
    end.record()
    end.synchronize()
    return 1000 * float(begin.elapsed_time(end)), punctual


def timed_in_time(before: Call, call: Call, device: str) -> tuple[float, bool]:
    """Do the same, and again if the host was late; False if it was late each time."""
    for _ in range(TRIES):
        taken_us, punctual = elapsed_us(before, call, device)
        if punctual:
            break
    return taken_us, punctual


@dataclass(frozen=True)
class InterleavedTimes:
    """Times of elite and seed at a shape, in microseconds per call, and the seed's over the elite's with its bounds."""

    elite_us: float
    seed_us: float
    low: float
    ratio: float
    high: float
    pairs: int
    calls: int
    elite_deciles_us: tuple[float, ...]
    seed_deciles_us: tuple[float, ...]
    late: int


def over_draws(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median times over several draws of places, with the interval of the median over draws.

    Of six draws it reaches from the least to the largest: their median lies in it with a probability of 97 %.
    """
    if len(found) == 1:
        return dict(found[0])
    ratios = sorted(each["ratio"] for each in found)
    low, high = median_bounds(len(ratios))
    ends = {"low": ratios[low], "high": ratios[high], "ratio": statistics.median(ratios)}
    sides = {name: statistics.median(each[name] for each in found) for name in ("elite_us", "seed_us")}
    sums = {name: sum(each[name] for each in found) for name in ("pairs", "late")}
    names = [name for name in found[0].get("samples", ()) if all(name in each["samples"] for each in found)]
    samples = {name: over_draws([each["samples"][name] for each in found]) for name in names}
    return {**found[0], **ends, **sides, **sums, "draws": len(found)} | ({"samples": samples} if samples else {})


Step = tuple[Call, Call]
"""Preparation of a graph, and the graph."""


def interleaved(
    elites: Sequence[Step], seeds: Sequence[Step], calls: int, device: str, seconds: float
) -> InterleavedTimes:
    """Time graphs of so many calls in turn: those of elite and seed at one place of both lists are a pair."""
    for each in (*elites, *seeds):
        elapsed_us(*each, device)
    until, elite_us, seed_us, late = time.monotonic() + seconds, list[float](), list[float](), 0
    while time.monotonic() < until or len(elite_us) < 2:
        number = len(elite_us)
        order = [(elites, elite_us), (seeds, seed_us)]
        for steps, found in order if number // len(elites) % 2 else reversed(order):
            taken_us, punctual = timed_in_time(*steps[number % len(elites)], device)
            late += not punctual
            found.append(taken_us / calls)
    ratios = sorted(its / mine for mine, its in zip(elite_us, seed_us, strict=True))
    low, high = median_bounds(len(ratios))
    medians = statistics.median(elite_us), statistics.median(seed_us), ratios[low], statistics.median(ratios)
    deciles = tuple(tuple(statistics.quantiles(times, n=10)) for times in (elite_us, seed_us))
    return InterleavedTimes(*medians, ratios[high], len(ratios), calls, *deciles, late)


def median_bounds(count: int) -> tuple[int, int]:
    """Return the places, in ascending order, between which the median lies with a probability of 95 %."""
    low = max(0, math.floor((count - NORMAL * math.sqrt(count)) / 2))
    return low, count - 1 - low
