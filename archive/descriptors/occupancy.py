"""Occupancy: the share of an SM's warps that can be resident."""

from archive.descriptors.base import Descriptor


class Occupancy(Descriptor):
    """Share of an SM's warp slots that can be resident, 0 to 1.

    Edges: quarters; all slots taken is a bin of its own.
    """

    name = "occupancy"
    unit = ""
    meaning = "share of an SM's warp slots that can be resident: many threads, or few with much each"
    edges = (0.25, 0.5, 0.75, 1.0)
    labels = ("under 25%", "25-50%", "50-75%", "75-100%", "100%")
