"""Path of reads from global memory."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, choice


class MemoryPath(Descriptor):
    """Path of reads from global memory. Bins: one per path."""

    name = "memory_path"
    unit = ""
    meaning = "plain loads, asynchronous copies to shared memory, or bulk copies by the tensor memory accelerator"
    needs = ("memory_path",)
    edges = (1, 2)
    labels = ("plain", "async", "bulk")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return its position in the order of the bins."""
        return choice(readings, "memory_path", ("plain", "async", "bulk"))
