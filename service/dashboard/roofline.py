"""Roofline chart: distance of a kernel from the limits of memory and arithmetic, and which of the two bounds it.

A roof is the inverse of a time floor of `service.evaluation.floors`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Literal

from service.evaluation.floors import ShapeWork, rate
from workers.targets import Target

WIDTH, HEIGHT = 300.0, 150.0
"""Size of the chart's coordinate system."""
DECADES_X, DECADES_Y = (-1.0, 4.0), 3.0
"""Minimum range of the axes in powers of ten: intensity, and rate below the highest roof."""
CLOSE_X, CLOSE_Y = 20.0, 9.0
"""Width and height of a label in percent of the chart; labels of closer points would overlap."""


@dataclass(frozen=True)
class RooflinePoint:
    """A shape in the chart: percent from the left and from the top, and the position of its label.

    Attributes:
        side: End of the label that lies at the point.
        row: Number of labels of close points above it.
    """

    label: str
    x: float
    y: float
    side: Literal["start", "end"]
    row: int


@dataclass(frozen=True)
class Roofline:
    """The chart: roofs as an SVG path, shapes as points, axis ends as text."""

    roof: str
    points: tuple[RooflinePoint, ...]
    left: str
    right: str
    top: str
    bottom: str
    peak: str
    summary: str


def roofline(shapes: Sequence[tuple[str, ShapeWork, float]], target: Target) -> Roofline | None:
    """Draw shapes under the roofs of a card. Returns None if no shape has known bytes and operations.

    Args:
        shapes: Label, work and time in microseconds of each shape.
        target: The card.
    """
    known = [
        (label, work, time_us) for label, work, time_us in shapes if work.flops and work.required_bytes and time_us
    ]
    if not known:
        return None
    products = any(work.matrix_flops for _, work, _ in known)
    peak = target.fp32_flops if not products else max(rate(work, target) for _, work, _ in known)
    placed = [
        (label, (work.flops or 0.0) / (work.required_bytes or 1), (work.flops or 0.0) / time_us * 1e6)
        for label, work, time_us in known
    ]
    left = min(DECADES_X[0], *(log10(x) - 0.5 for _, x, _ in placed))
    right = max(DECADES_X[1], *(log10(x) + 0.5 for _, x, _ in placed))
    top = log10(peak) + 0.3
    bottom = min(log10(peak) - DECADES_Y, *(log10(y) - 0.3 for _, _, y in placed))

    def across(intensity: float) -> float:
        return (log10(intensity) - left) / (right - left)

    def down(rate: float) -> float:
        return (top - log10(rate)) / (top - bottom)

    ridge = peak / target.dram_bytes_per_s
    start = max(10**left, 10**bottom / target.dram_bytes_per_s)
    roof = (
        f"M{across(start) * WIDTH:.1f} {down(start * target.dram_bytes_per_s) * HEIGHT:.1f}"
        f"L{across(ridge) * WIDTH:.1f} {down(peak) * HEIGHT:.1f}H{WIDTH:.0f}"
    )
    points = _points([(label, 100 * across(x), 100 * down(y)) for label, x, y in placed])
    summary = "; ".join(f"{label}: {x:.3g} operations per byte, {_flops(y)}" for label, x, y in placed)
    return Roofline(
        roof,
        points,
        _intensity(left),
        f"{_intensity(right)} operations per byte",
        _flops(10**top),
        _flops(10**bottom),
        _flops(peak),
        summary,
    )


def _points(placed: Sequence[tuple[str, float, float]]) -> tuple[RooflinePoint, ...]:
    """Place the labels so that they do not overlap; `placed` has label, percent from the left and from the top."""
    points: list[RooflinePoint] = []
    for label, x, y in sorted(placed, key=lambda each: each[2]):
        row = sum(abs(each.x - x) < CLOSE_X and abs(each.y - y) < CLOSE_Y for each in points)
        points.append(RooflinePoint(label, round(x, 2), round(y, 2), "end" if x > 50 else "start", row))
    return tuple(points)


def _intensity(power: float) -> str:
    return f"{10**power:,.0f}" if power >= 1 else f"{10**power:.2g}"


def _flops(rate: float) -> str:
    size, unit = next(
        ((size, unit) for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")) if rate >= size), (1e3, "k")
    )
    return f"{rate / size:.3g} {unit}FLOP/s"
