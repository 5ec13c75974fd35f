"""The descriptor socket: one axis of the grid per file.

A descriptor maps the trace-side reading of its name (the first benchmark shape's) to one value and bins it by fixed
edges. It never sees source text, so a comment, a rename or a reformat cannot move a kernel.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, ClassVar

from archive.records import AxisRecord


class Descriptor:
    """One axis.

    Attributes:
        name: Name of the reading, in specs and columns; also its key in the table.
        unit: Unit of the value; empty for a plain count or ratio.
        meaning: Description in one line.
        choices: Possible readings in the order of the bins; the value is a position in it. Empty for a number.
        edges: Inner borders of the bins, ascending; n edges make n + 1 bins, a value on an edge goes up.
        labels: Description of each bin in words; one more than edges.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    meaning: ClassVar[str]
    choices: ClassVar[tuple[str | bool, ...]] = ()
    edges: ClassVar[tuple[float, ...]]
    labels: ClassVar[tuple[str, ...]]

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the coordinate; None if the reading is unknown, or none of the choices."""
        reading = readings.get(self.name)
        if self.choices:
            return float(self.choices.index(reading)) if reading in self.choices else None
        return None if reading is None else float(reading)

    def bin(self, value: float) -> int:
        """Return the index of the bin that holds `value`, from 0."""
        return bisect_right(self.edges, value)

    def coordinate(self, readings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return `{"value": ..., "bin": ...}`; None if the reading is unknown."""
        value = self.value(readings)
        return None if value is None else {"value": value, "bin": self.bin(value)}

    @property
    def axis(self) -> AxisRecord:
        """The axis of a grid that it defines."""
        return AxisRecord(self.name, len(self.edges) + 1)
