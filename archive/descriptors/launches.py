"""Number of kernel launches."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, quantity


class LaunchCount(Descriptor):
    """Kernel launches of one call.

    Edges: one is fully fused, two is partial results and a combination; beyond four, launch overhead dominates.
    """

    name = "launches"
    unit = "launches"
    meaning = "fused into one kernel, or split into several"
    needs = ("launches",)
    edges = (2, 3, 5)
    labels = ("1", "2", "3-4", "5 or more")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the reading."""
        return quantity(readings, "launches")
