"""Roofline chart: distance of a kernel from the limits of memory and arithmetic, and which of the two bounds it.

A roof is the inverse of a time floor: required bytes at the card's peak bandwidth, and operations at its peak rate.
See Williams, Waterman and Patterson 2009.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Literal

from workers.targets import Target

WIDTH, HEIGHT = 300.0, 150.0
"""Size of the chart's coordinate system."""
DECADES_X, DECADES_Y = (-1.0, 4.0), 3.0
"""Minimum range of the axes in powers of ten: intensity, and rate below the highest roof."""
CLOSE_X, CLOSE_Y = 20.0, 9.0
"""Width and height of a label in percent of the chart; labels of closer points would overlap."""
HALVES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Types whose products the matrix units compute at the sheet's rate or faster."""

Bound = Literal["memory", "arithmetic"]


@dataclass(frozen=True)
class ShapeWork:
    """Work of one call at a shape. Unknown figures are None.

    Attributes:
        required_bytes: Bytes of the inputs, read once, and of the outputs, written once.
        matrix_flops: Operations in matrix products, as the reference is written.
        other_flops: All other operations.
        halves: True if an input type is short enough for the matrix units' full rate.
    """

    required_bytes: int | None = None
    matrix_flops: float | None = None
    other_flops: float | None = None
    halves: bool = True

    @property
    def flops(self) -> float | None:
        """All operations."""
        return None if self.matrix_flops is None else self.matrix_flops + (self.other_flops or 0.0)


@dataclass(frozen=True)
class TimeFloors:
    """Time floors of a call, microseconds; None if unknown."""

    memory_us: float | None
    arithmetic_us: float | None

    @property
    def bound(self) -> Bound | None:
        """Kind of the higher floor."""
        if self.memory_us is None and self.arithmetic_us is None:
            return None
        return "arithmetic" if (self.arithmetic_us or 0.0) > (self.memory_us or 0.0) else "memory"

    @property
    def floor_us(self) -> float | None:
        """The higher floor."""
        known = [each for each in (self.memory_us, self.arithmetic_us) if each is not None]
        return max(known, default=None)


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


def works(
    shapes: Sequence[Mapping[str, Any]], graphs: Sequence[Mapping[str, Any]], dtypes: Sequence[str]
) -> list[ShapeWork]:
    """Collect the work at each shape of a search, without the bytes.

    Args:
        shapes: Shapes of the search.
        graphs: Reference graphs; those of earlier releases have no counts of operations.
        dtypes: Types of the operator's inputs.
    """
    by_dims = {tuple(sorted(graph["shape"]["dims"].items())): graph for graph in graphs}
    halves = any(dtype in HALVES for dtype in dtypes)
    found = [by_dims.get(tuple(sorted(shape["dims"].items())), {}) for shape in shapes]
    return [ShapeWork(None, graph.get("matrix_flops"), graph.get("other_flops"), halves) for graph in found]


def floors(work: ShapeWork, target: Target) -> TimeFloors:
    """Compute the time floors of a card.

    An operator may allow the matrix units to shorten wider inputs. They then run at half the rate of the short types,
    as on every card of the sheets since sm_80.
    """
    memory = work.required_bytes / target.dram_bytes_per_s * 1e6 if work.required_bytes else None
    if not work.flops:
        return TimeFloors(memory, None)
    arithmetic = max((work.matrix_flops or 0.0) / _rate(work, target), (work.other_flops or 0.0) / target.fp32_flops)
    return TimeFloors(memory, arithmetic * 1e6)


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
    peak = target.fp32_flops if not products else max(_rate(work, target) for _, work, _ in known)
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


def _rate(work: ShapeWork, target: Target) -> float:
    return target.matrix_flops if work.halves else target.matrix_flops / 2


def _flops(rate: float) -> str:
    size, unit = next(
        ((size, unit) for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")) if rate >= size), (1e3, "k")
    )
    return f"{rate / size:.3g} {unit}FLOP/s"
