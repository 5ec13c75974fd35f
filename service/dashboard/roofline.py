"""The roofline: how near a kernel comes to what memory and arithmetic allow, and which of the two bounds it.

A roof is a floor of time turned over: bytes that must be moved at the card's peak bandwidth, and operations at its peak
rate. Williams, Waterman and Patterson 2009.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Literal

from workers.targets import Target

WIDTH, HEIGHT = 300.0, 150.0
"""Size of the drawing's coordinate system."""
DECADES_X, DECADES_Y = (-1.0, 4.0), 3.0
"""Powers of ten of intensity that are shown at least, and of the rate below the highest roof."""
CLOSE_X, CLOSE_Y = 20.0, 9.0
"""Percent of the drawing that a label is wide and high: points nearer than that would write over each other."""
HALVES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Types whose products the matrix units take at the sheet's rate or above."""

Bound = Literal["memory", "arithmetic"]


@dataclass(frozen=True)
class ShapeWork:
    """What one call has to do at a shape. None where it is not known.

    Attributes:
        required_bytes: Inputs read once and outputs written once.
        matrix_flops: Operations of matrix products, as the reference is written.
        other_flops: All others.
        halves: Whether inputs are so short that the matrix units take products at their full rate.
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
    """Least times of a call, microseconds; None where it is not known."""

    memory_us: float | None
    arithmetic_us: float | None

    @property
    def bound(self) -> Bound | None:
        """Which of them is the higher one."""
        if self.memory_us is None and self.arithmetic_us is None:
            return None
        return "arithmetic" if (self.arithmetic_us or 0.0) > (self.memory_us or 0.0) else "memory"

    @property
    def floor_us(self) -> float | None:
        """The higher one."""
        known = [each for each in (self.memory_us, self.arithmetic_us) if each is not None]
        return max(known, default=None)


@dataclass(frozen=True)
class RooflinePoint:
    """A shape in the drawing: percent from the left and from the top, and where its label has room.

    Attributes:
        side: The label's end that lies at the point.
        row: How many labels of points close by are above it.
    """

    label: str
    x: float
    y: float
    side: Literal["start", "end"]
    row: int


@dataclass(frozen=True)
class Roofline:
    """The drawing: roofs as an SVG path, shapes as points, axes in words."""

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
    """What is to be done at each shape of a search, but for the bytes.

    Args:
        shapes: As the search has them.
        graphs: Reference graphs; those of earlier releases do not say how much arithmetic they take.
        dtypes: Of the operator's inputs.
    """
    by_dims = {tuple(sorted(graph["shape"]["dims"].items())): graph for graph in graphs}
    halves = any(dtype in HALVES for dtype in dtypes)
    found = [by_dims.get(tuple(sorted(shape["dims"].items())), {}) for shape in shapes]
    return [ShapeWork(None, graph.get("matrix_flops"), graph.get("other_flops"), halves) for graph in found]


def floors(work: ShapeWork, target: Target) -> TimeFloors:
    """The least times that a card allows.

    Products of inputs that are not all short may be taken with fewer bits by the matrix units where an operator allows
    that: half the rate of their shorter types, as on every card of the sheets since sm_80.
    """
    memory = work.required_bytes / target.dram_bytes_per_s * 1e6 if work.required_bytes else None
    if not work.flops:
        return TimeFloors(memory, None)
    matrix_rate = target.matrix_flops if work.halves else target.matrix_flops / 2
    arithmetic = max((work.matrix_flops or 0.0) / matrix_rate, (work.other_flops or 0.0) / target.fp32_flops)
    return TimeFloors(memory, arithmetic * 1e6)


def roofline(shapes: Sequence[tuple[str, ShapeWork, float]], target: Target) -> Roofline | None:
    """Draw shapes under the roofs of a card; None unless bytes and operations of one are known.

    Args:
        shapes: Label, work and time in microseconds of each.
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
    said = "; ".join(f"{label}: {x:.3g} operations a byte, {_flops(y)}" for label, x, y in placed)
    return Roofline(
        roof,
        points,
        _intensity(left),
        f"{_intensity(right)} operations a byte",
        _flops(10**top),
        _flops(10**bottom),
        _flops(peak),
        said,
    )


def _points(placed: Sequence[tuple[str, float, float]]) -> tuple[RooflinePoint, ...]:
    """Label, percent from the left and percent from the top of each, with labels that do not cover each other."""
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
