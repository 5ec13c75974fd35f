"""Time floors of an operator on a card: required bytes at its peak bandwidth or copied, operations at its peak rate.

See Williams, Waterman and Patterson 2009.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workers.protocol import Report
from workers.targets import Target, shown_figures

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
class MemoryFloor:
    """Times for moving the bytes of a call, microseconds.

    Attributes:
        peak_us: At the card's theoretical peak, which no kernel reaches.
        copy_us: Of a plain copy in the harness of the baselines; None if it is not measured.
    """

    peak_us: float
    copy_us: float | None

    def __str__(self) -> str:
        peak = f"{self.peak_us:.2f} us at the peak bandwidth"
        return peak if self.copy_us is None else f"a copy of its bytes takes {self.copy_us:.2f} us, {peak}"


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
    arithmetic = max((work.matrix_flops or 0.0) / rate(work, target), (work.other_flops or 0.0) / target.fp32_flops)
    return TimeFloors(memory, arithmetic * 1e6)


def memory_floors(report: Report) -> dict[str, MemoryFloor]:
    """Return the floors by memory that a report on a card tells, by shape key.

    The bytes are those of the inputs and outputs, as for a copy; where a kernel may leave some out, it can be faster.
    """
    target = shown_figures(report.device.target, report.card)
    return {
        result.shape: MemoryFloor(required / target.dram_bytes_per_s * 1e6, result.copy_us)
        for result in report.shapes
        if result.readings is not None and (required := result.readings.bytes_required)
    }


def rate(work: ShapeWork, target: Target) -> float:
    """Return the peak rate of the matrix units for a work, operations per second."""
    return target.matrix_flops if work.halves else target.matrix_flops / 2
