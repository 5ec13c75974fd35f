"""Number of kernel launches."""

from archive.descriptors.base import Descriptor


class LaunchCount(Descriptor):
    """Kernel launches of one call.

    Edges: one is fully fused, two is partial results and a combination; beyond four, launch overhead dominates.
    """

    name = "launches"
    unit = "launches"
    meaning = "fused into one kernel, or split into several"
    edges = (2, 3, 5)
    labels = ("1", "2", "3-4", "5 or more")
