"""Number of warps per program."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, quantity


class NumWarps(Descriptor):
    """Warps per program.

    Edges: Triton takes powers of two up to 32, which is 1024 threads, the largest block.
    """

    name = "num_warps"
    unit = "warps"
    meaning = "threads that work on one program together"
    needs = ("num_warps",)
    edges = (2, 4, 8, 16, 32)
    labels = ("1", "2", "4", "8", "16", "32")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the reading."""
        return quantity(readings, "num_warps")
