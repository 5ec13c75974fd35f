"""Descriptors: differences between kernels as axes of the grid. One file each, one table.

Every axis uses trace-side readings only. So it is the same on a machine without the GPU, and no comment, rename or
reformat moves a kernel. `base` has the contract.
"""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.accumulators import Accumulators
from archive.descriptors.base import Descriptor
from archive.descriptors.cluster_size import ClusterSize
from archive.descriptors.launches import LaunchCount
from archive.descriptors.load_width_bytes import LoadWidthBytes
from archive.descriptors.memory_path import MemoryPath
from archive.descriptors.num_warps import NumWarps
from archive.descriptors.occupancy import Occupancy
from archive.descriptors.persistent import Persistent
from archive.descriptors.programs_per_sm import ProgramsPerSm
from archive.descriptors.registers import Registers
from archive.descriptors.shared_bytes import SharedBytes
from archive.descriptors.tensor_core import TensorCore
from archive.descriptors.warp_roles import WarpRoles

__all__ = ["DEFAULT_AXES", "DESCRIPTORS", "Descriptor", "coordinates"]

DESCRIPTORS: dict[str, Descriptor] = {
    descriptor.name: descriptor
    for descriptor in (
        ProgramsPerSm(),
        NumWarps(),
        Registers(),
        SharedBytes(),
        Occupancy(),
        LoadWidthBytes(),
        MemoryPath(),
        TensorCore(),
        LaunchCount(),
        Persistent(),
        WarpRoles(),
        ClusterSize(),
        Accumulators(),
    )
}
"""Every descriptor, by name."""

DEFAULT_AXES = ("programs_per_sm", "num_warps", "registers")
"""Default axes of a search: how the work is split, threads per program, and state per thread.

All three move independently for memory-bound kernels (rows per program, launch option, one pass or a loop).
"""


def coordinates(readings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the coordinates of a kernel, for every descriptor whose readings are known.

    The form is `{name: {"value": ..., "bin": ...}}`.

    Args:
        readings: Trace-side readings of the first benchmark shape, by name.
    """
    found = {name: descriptor.coordinate(readings) for name, descriptor in DESCRIPTORS.items()}
    return {name: coordinate for name, coordinate in found.items() if coordinate is not None}
