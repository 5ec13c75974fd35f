"""Times of a kernel beside other kernels' times, per shape, and their distance from the card's floors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.dashboard.charts import TimeBar, bar
from service.dashboard.formatting import time_us
from service.dashboard.roofline import Bound, ShapeWork, TimeFloors, floors
from workers.protocol import Report, ShapeResult
from workers.targets import TARGETS

NEAR_FLOOR = 1.5
"""Maximum ratio of time to floor at which the floor is called the limit; above it, other costs prevail."""
LIMITS: Mapping[Bound, tuple[str, str]] = {
    "memory": ("memory bandwidth", "latency, instructions or bytes moved more than once"),
    "arithmetic": ("arithmetic", "latency, idle matrix units or memory"),
}
"""Names of the floors, and the costs that come on top of each."""


@dataclass(frozen=True)
class ShapeTimes:
    """Times at one benchmark shape.

    Attributes:
        shape: Sizes of the shape.
        bars: Times of the kernel and of others, on one scale from zero.
        pairs: Number of paired samples behind the kernel's time; 0 if it was not measured.
        floors: Time floors of the card.
        distance: Kernel's time over the higher floor; None if neither floor is known.
        share: Share of the peak bandwidth, or of the peak rate, that the kernel achieves.
        limit: Limit of the kernel in words.
    """

    shape: str
    bars: tuple[TimeBar, ...]
    pairs: int
    floors: TimeFloors
    distance: float | None
    share: float | None
    limit: str


@dataclass(frozen=True)
class BaselineTimes:
    """Times of another kernel, microseconds by shape."""

    label: str
    kind: str
    times_us: Mapping[str, float]


def compare(
    report: Report, works: Mapping[str, ShapeWork], rivals: Sequence[BaselineTimes], provenance: str
) -> tuple[ShapeTimes, ...]:
    """Compare a report's times with those of other kernels.

    Args:
        report: Report on the kernel.
        works: Work by shape.
        rivals: Other kernels with times at the same shapes.
        provenance: Source of the report's times: measured, predicted or recorded.
    """
    target = TARGETS[report.device.target]
    return tuple(
        _shape(result, floors(works.get(result.shape, ShapeWork()), target), rivals, provenance)
        for result in report.shapes
        if result.mid_us is not None
    )


def _shape(result: ShapeResult, least: TimeFloors, rivals: Sequence[BaselineTimes], provenance: str) -> ShapeTimes:
    middle = result.mid_us or 0.0
    others = [
        (rival.label, rival.kind, rival.times_us[result.shape]) for rival in rivals if result.shape in rival.times_us
    ]
    others += [(name, "baseline", time) for name, time in sorted(result.baselines_us.items(), key=lambda item: item[1])]
    if result.pacer_us is not None:
        others.append(("pacer", "pacer", result.pacer_us))
    for name, time in (("memory floor", least.memory_us), ("arithmetic floor", least.arithmetic_us)):
        if time is not None:
            others.append((name, "floor", time))
    own = (result.low_us or middle, middle, result.high_us or middle)
    longest = max([own[2], *(time for _, _, time in others)])
    bars = [bar("this kernel", "own", time_us(middle, provenance), own, longest)]
    bars += [
        bar(label, kind, time_us(time, "measured" if kind == "floor" else provenance), (time, time, time), longest)
        for label, kind, time in others
    ]
    distance = middle / least.floor_us if least.floor_us and middle else None
    return ShapeTimes(
        shape=result.shape,
        bars=tuple(bars),
        pairs=result.pairs,
        floors=least,
        distance=distance,
        share=None if distance is None else 1 / distance,
        limit=_limit(least.bound, distance),
    )


def _limit(bound: Bound | None, distance: float | None) -> str:
    if bound is None or distance is None:
        return "the required bytes and operations are unknown"
    name, rest = LIMITS[bound]
    return name if distance <= NEAR_FLOOR else f"more than {name}: {rest}"
