"""Comparison of the kernels found on a card with their baselines."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.figures import Row
from benchmarks.suites import CardRates, SuiteEntry, floor_us, moved_bytes
from workers.baselines import BaselineProcess, measure_baselines
from workers.baselines.messages import BaselineReply, BaselineRequest
from workers.errors import WorkerError
from workers.protocol import Bundle, Device, Graph, Operator

REASON_CHARS = 500
Compare = Callable[[SuiteEntry, Sequence[Graph], Bundle], Row]


async def compared(compare: Compare, entry: SuiteEntry, graphs: Sequence[Mapping[str, Any]], best: Bundle) -> Row:
    """Compare a row's best kernel; the reason if that is impossible."""
    begun = time.monotonic()
    read = [Graph.model_validate(graph) for graph in graphs]
    try:
        found = await asyncio.to_thread(compare, entry, read, best)
    except (WorkerError, OSError, ValueError) as error:  # A row's figures, not those of all.
        found = {"reason": f"{type(error).__name__}: {error}"[:REASON_CHARS]}
    return {**found, "compare_s": round(time.monotonic() - begun, 1)}


def figures_of(
    entry: SuiteEntry,
    graphs: Sequence[Graph],
    bundle: Bundle,
    *,
    device: Device,
    rates: CardRates,
    process: BaselineProcess,
    half_width: float = 0.0,
) -> Row:
    """Times of a kernel and of all baselines, interleaved in one run, and what of the floor it reaches.

    Args:
        entry: The row.
        graphs: Its reference.
        bundle: The kernel.
        device: Hardware class.
        rates: The card's rates, for the floor.
        process: Times all of them.
        half_width: Relative half-width of all ratios at which the timing ends before its rounds; 0 for all rounds.

    Raises:
        BaselinesFailed: If they could not be measured.
    """

    def ask(request: BaselineRequest) -> BaselineReply:
        return process.ask(request.model_copy(update={"half_width": half_width}))

    operator = Operator.model_validate(entry.contract())
    reduced = bundle.reduced()
    found = measure_baselines(operator, graphs, reduced, device, ask, None, {})
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
        "ratios": {
            name: {
                "low": figure.over_pacer * (1 - figure.half_width),
                "mid": figure.over_pacer,
                "high": figure.over_pacer * (1 + figure.half_width),
            }
            for name, figure in baseline.figures.items()
        },
        "pairs": baseline.pairs,
        "asked": entry.baselines,
        "skipped": baseline.skipped,
        "baselines_s": {name: round(seconds, 2) for name, seconds in baseline.spent_s.items()},
        "floor_us": least,
        "floor_share": least / baseline.pacer_us,
        "copy_us": baseline.copy_us,
    }
