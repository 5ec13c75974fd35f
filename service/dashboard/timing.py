"""Times of a kernel beside those of others, shape by shape, and how far they are from what the memory allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.dashboard.charts import Bar, bar
from service.dashboard.words import time_us
from workers.protocol import Report, ShapeResult
from workers.targets import TARGETS, Target

NEAR_FLOOR = 1.5
"""Up to this many times the floor, memory is what limits a kernel; beyond, something else costs more."""


@dataclass(frozen=True)
class ShapeTimes:
    """One benchmark shape.

    Attributes:
        shape: Its sizes.
        bars: The kernel's time and others', all on one scale from zero.
        pairs: Paired samples behind the kernel's time, 0 where it was not measured.
        floor_us: What reading inputs and writing outputs once takes at the card's peak; None if it is unknown.
        distance: The kernel's time over the floor.
        bandwidth: Share of the peak that the required bytes come to in that time.
        limit: What limits the kernel, in words.
    """

    shape: str
    bars: tuple[Bar, ...]
    pairs: int
    floor_us: float | None
    distance: float | None
    bandwidth: float | None
    limit: str


@dataclass(frozen=True)
class Rival:
    """Somebody else's times, microseconds by shape."""

    label: str
    kind: str
    times_us: Mapping[str, float]


def floor_us(bytes_required: int | None, target: Target) -> float | None:
    """Time that the bytes a kernel must move take at the target's peak bandwidth, microseconds; None if unknown."""
    return None if not bytes_required else bytes_required / target.dram_bytes_per_s * 1e6


def compare(
    report: Report, required: Mapping[str, int | None], rivals: Sequence[Rival], provenance: str
) -> tuple[ShapeTimes, ...]:
    """Hold a report's times against others'.

    Args:
        report: Of the kernel.
        required: By shape, bytes that any kernel must move.
        rivals: Others that have times for the same shapes.
        provenance: Where the report's times come from.
    """
    target = TARGETS[report.device.target]
    return tuple(
        _shape(result, floor_us(required.get(result.shape), target), rivals, provenance)
        for result in report.shapes
        if result.mid_us is not None
    )


def _shape(result: ShapeResult, floor: float | None, rivals: Sequence[Rival], provenance: str) -> ShapeTimes:
    middle = result.mid_us or 0.0
    others = [
        (rival.label, rival.kind, rival.times_us[result.shape]) for rival in rivals if result.shape in rival.times_us
    ]
    others += [(name, "baseline", time) for name, time in sorted(result.baselines_us.items(), key=lambda item: item[1])]
    if result.pacer_us is not None:
        others.append(("pacer", "pacer", result.pacer_us))
    if floor is not None:
        others.append(("memory floor", "floor", floor))
    own = (result.low_us or middle, middle, result.high_us or middle)
    longest = max([own[2], *(time for _, _, time in others)])
    bars = [bar("this kernel", "own", time_us(middle, provenance), own, longest)]
    bars += [
        bar(label, kind, time_us(time, "measured" if kind == "floor" else provenance), (time, time, time), longest)
        for label, kind, time in others
    ]
    distance = middle / floor if floor and middle else None
    return ShapeTimes(
        shape=result.shape,
        bars=tuple(bars),
        pairs=result.pairs,
        floor_us=floor,
        distance=distance,
        bandwidth=None if distance is None else 1 / distance,
        limit=_limit(distance),
    )


def _limit(distance: float | None) -> str:
    if distance is None:
        return "the bytes that must be moved are not known"
    if distance <= NEAR_FLOOR:
        return "memory bandwidth"
    return "not memory bandwidth alone: latency, arithmetic or bytes moved more than once"
