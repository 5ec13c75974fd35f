"""Shared memory per program."""

from archive.descriptors.base import Descriptor


class SharedBytes(Descriptor):
    """Shared memory per program.

    Edges: the partial results of a reduction fit in under 1 KiB; 48 KiB is the default limit of a kernel; 99 KiB is the
        maximum on sm_86, sm_89 and sm_120 (CUDA programming guide, compute capabilities table).
    """

    name = "shared_bytes"
    unit = "bytes"
    meaning = "whether a program exchanges values between warps, or stages tiles"
    edges = (1, 1024, 16384, 49152, 101377)
    labels = ("none", "under 1 KiB", "1-16 KiB", "16-48 KiB", "48-99 KiB", "over 99 KiB")
