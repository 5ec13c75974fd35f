"""The matrix unit."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, choice


class TensorCore(Descriptor):
    """Matrix instruction that the kernel uses. Bins: none, a warp's, a warp group's."""

    name = "tensor_core"
    unit = ""
    meaning = "which matrix instruction the kernel uses"
    needs = ("tensor_core",)
    edges = (1, 2)
    labels = ("none", "mma", "wgmma")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return its position in the order of the bins."""
        return choice(readings, "tensor_core", ("none", "mma", "wgmma"))
