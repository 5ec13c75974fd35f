"""Thread blocks of a cluster."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, quantity


class ClusterSize(Descriptor):
    """Thread blocks that share memory as a cluster.

    Edges: powers of two up to 8, the largest portable size (CUDA programming guide, thread block clusters).
    """

    name = "cluster_size"
    unit = "thread blocks"
    meaning = "how many thread blocks share memory as a cluster"
    needs = ("cluster_size",)
    edges = (2, 4, 8)
    labels = ("1", "2-3", "4-7", "8 or more")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the reading."""
        return quantity(readings, "cluster_size")
