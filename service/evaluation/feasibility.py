"""Cells of a grid that no kernel can reach, because an SM of the target has too few registers."""

from collections.abc import Iterable, Mapping
from itertools import product
from math import prod

from archive.descriptors import DESCRIPTORS
from archive.records import AxisRecord
from workers.targets import Target

LIMITED = ("registers", "num_warps", "occupancy")
"""Axes that limit one another."""


def is_impossible(bins: Mapping[str, int], target: Target) -> bool:
    """Return True if no kernel can lie in all of these bins.

    Only what the sheet of the target rules out counts: registers per thread times threads per program, or times the
    threads that the occupancy asks for, cannot exceed the registers of an SM. Other cells may be out of an operator's
    reach for reasons that are not known beforehand.

    Args:
        bins: Bin by descriptor, of the axes that are fixed; the others may have any value.
        target: Target of the search's devices.
    """
    if "registers" not in bins:
        return False
    registers = _least("registers", bins)
    threads = max(
        _least("num_warps", bins) * target.warp_size if "num_warps" in bins else 0.0,
        _least("occupancy", bins) * target.threads_sm if "occupancy" in bins else 0.0,
    )
    return registers * threads > target.registers_sm


def count_impossible(axes: Iterable[AxisRecord], target: Target) -> int:
    """Return the number of cells of a grid that no kernel can reach."""
    bins = {axis.descriptor: axis.bins for axis in axes}
    ruled = [name for name in LIMITED if name in bins]
    found = sum(
        is_impossible(dict(zip(ruled, at, strict=True)), target)
        for at in product(*(range(bins[name]) for name in ruled))
    )
    return found * prod(count for name, count in bins.items() if name not in ruled)


def _least(name: str, bins: Mapping[str, int]) -> float:
    """Return the smallest value of a bin; the first bin begins at one warp or register, or at no occupancy."""
    edges = DESCRIPTORS[name].edges
    at = bins[name]
    if at:
        return edges[at - 1]
    return 0.0 if name == "occupancy" else 1.0
