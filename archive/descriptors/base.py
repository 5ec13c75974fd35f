"""The descriptor socket: one axis of the grid per file.

A descriptor maps the trace-side readings of a plan (the first benchmark shape's) to one value and bins it by fixed
edges. It never sees source text, so a comment, a rename or a reformat cannot move a kernel.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from archive.records import AxisRecord


class Descriptor(ABC):
    """One axis.

    Attributes:
        name: Name in specs and columns; also its key in the table.
        unit: Unit of the value; empty for a plain count or ratio.
        meaning: Description in one line.
        needs: Names of the readings it uses.
        edges: Inner borders of the bins, ascending; n edges make n + 1 bins, a value on an edge goes up.
        labels: Description of each bin in words; one more than edges.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    meaning: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    edges: ClassVar[tuple[float, ...]]
    labels: ClassVar[tuple[str, ...]]

    @abstractmethod
    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the coordinate; None if a needed reading is unknown."""

    def bin(self, value: float) -> int:
        """Return the index of the bin that holds `value`, from 0."""
        return bisect_right(self.edges, value)

    def coordinate(self, readings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return `{"value": ..., "bin": ...}`; None if a needed reading is unknown."""
        value = self.value(readings)
        return None if value is None else {"value": value, "bin": self.bin(value)}

    @property
    def axis(self) -> AxisRecord:
        """The axis of a grid that it defines."""
        return AxisRecord(self.name, len(self.edges) + 1)


def quantity(readings: Mapping[str, Any], name: str) -> float | None:
    """Return a numeric reading unchanged; None if it is unknown."""
    reading = readings.get(name)
    return None if reading is None else float(reading)


def choice(readings: Mapping[str, Any], name: str, choices: Sequence[str | bool]) -> float | None:
    """Return the position of a reading among its choices; None if it is unknown or none of them."""
    reading = readings.get(name)
    return float(choices.index(reading)) if reading in choices else None
