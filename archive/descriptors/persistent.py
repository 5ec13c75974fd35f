"""Scheduling of the work: by the grid, or by loops of persistent programs."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, choice


class Persistent(Descriptor):
    """True if programs loop over tiles. Bins: no, yes."""

    name = "persistent"
    unit = ""
    meaning = "whether programs stay resident and loop over tiles, or the hardware hands out one tile each"
    needs = ("persistent",)
    edges = (1,)
    labels = ("one tile a program", "persistent")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return its position in the order of the bins."""
        return choice(readings, "persistent", (False, True))
