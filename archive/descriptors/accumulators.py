"""Place of the sums of matrix instructions."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, choice


class Accumulators(Descriptor):
    """Place where matrix instructions add up. Bins: none, registers, the tensor memory that sm_100 introduced."""

    name = "accumulators"
    unit = ""
    meaning = "where matrix instructions add up: registers or tensor memory"
    needs = ("accumulators",)
    edges = (1, 2)
    labels = ("none", "registers", "tensor memory")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return its position in the order of the bins."""
        return choice(readings, "accumulators", ("none", "registers", "tensor_memory"))
