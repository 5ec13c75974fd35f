"""Shared memory per program."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, quantity


class SharedBytes(Descriptor):
    """Shared memory per program.

    Edges: the partial results of a reduction fit in under 1 KiB; 48 KiB is the default limit of a kernel; 99 KiB is the
        maximum on sm_86, sm_89 and sm_120 (CUDA programming guide, compute capabilities table).
    """

    name = "shared_bytes"
    unit = "bytes"
    meaning = "whether a program exchanges values between warps, or stages tiles"
    needs = ("shared_bytes",)
    edges = (1, 1024, 16384, 49152, 101377)
    labels = ("none", "under 1 KiB", "1-16 KiB", "16-48 KiB", "48-99 KiB", "over 99 KiB")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return the reading."""
        return quantity(readings, "shared_bytes")
