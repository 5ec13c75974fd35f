"""Path of reads from global memory."""

from archive.descriptors.base import Descriptor


class MemoryPath(Descriptor):
    """Path of reads from global memory. Bins: one per path."""

    name = "memory_path"
    unit = ""
    meaning = "plain loads, asynchronous copies to shared memory, or bulk copies by the tensor memory accelerator"
    choices = ("plain", "async", "bulk")
    edges = (1, 2)
    labels = ("plain", "async", "bulk")
