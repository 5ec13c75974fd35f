"""The widest load."""

from archive.descriptors.base import Descriptor


class LoadWidthBytes(Descriptor):
    """Widest global load that a thread issues.

    Edges: the widths PTX knows, 1 to 16 bytes (PTX ISA, vector operations of ld).
    """

    name = "load_width_bytes"
    unit = "bytes a thread"
    meaning = "how wide memory is read: scalar to fully vectorised"
    edges = (2, 4, 8, 16)
    labels = ("1 or none", "2", "4", "8", "16 or more")
