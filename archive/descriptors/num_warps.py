"""Number of warps per program."""

from archive.descriptors.base import Descriptor


class NumWarps(Descriptor):
    """Warps per program.

    Edges: Triton takes powers of two up to 32, which is 1024 threads, the largest block.
    """

    name = "num_warps"
    unit = "warps"
    meaning = "threads that work on one program together"
    edges = (2, 4, 8, 16, 32)
    labels = ("1", "2", "4", "8", "16", "32")
