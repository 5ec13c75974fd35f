"""Census: what the axes of a grid tell apart among the kernels that a search has found.

An axis on which every kernel lies in one bin tells nothing; two axes that move together tell the same thing twice. Both
are measured in bits (Shannon): the entropy of an axis, and the mutual information of two.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log2
from typing import Any

from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from archive.records import AxisRecord

Coordinates = Mapping[str, Mapping[str, Any]]
"""Coordinates of one kernel: `{name: {"value": ..., "bin": ...}}`."""


@dataclass(frozen=True)
class Spread:
    """Spread of kernels over bins or cells.

    Attributes:
        places: How many there are.
        counts: Kernels by place, of those places that hold any.
    """

    places: int
    counts: Mapping[int, int]

    @property
    def kernels(self) -> int:
        """Kernels that have a place."""
        return sum(self.counts.values())

    @property
    def reached(self) -> int:
        """Places that hold a kernel."""
        return len(self.counts)

    @property
    def entropy_bits(self) -> float:
        """Entropy of the place of a random kernel; 0 if all lie in one."""
        return _entropy(self.counts.values())

    @property
    def effective(self) -> float:
        """Number of equally full places with the same entropy."""
        return 2.0**self.entropy_bits if self.counts else 0.0

    @property
    def largest_share(self) -> float:
        """Share of the kernels in the fullest place, 0 to 1."""
        return max(self.counts.values()) / self.kernels if self.counts else 0.0


@dataclass(frozen=True)
class Census:
    """Statistics of the axes.

    Attributes:
        kernels: Distinct correct kernels looked at.
        descriptors: Spread over the bins of every descriptor, by name.
        cells: Spread over the cells of the search's own grid.
        shared: Of two descriptors: their mutual information over the smaller of their entropies, 0 to 1. A pair of
            which one tells nothing is left out.
    """

    kernels: int
    descriptors: Mapping[str, Spread]
    cells: Spread
    shared: Mapping[tuple[str, str], float]


class Counting:
    """A census under way. It keeps counts only, so millions of kernels can be looked at, one after the other."""

    def __init__(self, axes: Sequence[AxisRecord]) -> None:
        """Count in the grid of these axes, and along every descriptor."""
        self._grid = Grid(axes)
        self._kernels = 0
        self._cells: Counter[int] = Counter()
        self._bins: dict[str, Counter[int]] = {name: Counter() for name in DESCRIPTORS}
        self._pairs: dict[tuple[str, str], Counter[tuple[int, int]]] = {
            pair: Counter() for pair in combinations(DESCRIPTORS, 2)
        }

    def add(self, coordinates: Coordinates) -> None:
        """Count a kernel by its coordinates under every descriptor that is known of it."""
        self._kernels += 1
        place = {name: int(coordinate["bin"]) for name, coordinate in coordinates.items() if name in self._bins}
        for name, bin_ in place.items():
            self._bins[name][bin_] += 1
        for pair, joint in self._pairs.items():
            if pair[0] in place and pair[1] in place:
                joint[place[pair[0]], place[pair[1]]] += 1
        cell = self._grid.index(coordinates)
        if cell is not None:
            self._cells[cell] += 1

    def census(self) -> Census:
        """Return the statistics of all kernels counted so far."""
        shared = {pair: found for pair, joint in self._pairs.items() if (found := _shared(joint)) is not None}
        spreads = {name: Spread(DESCRIPTORS[name].axis.bins, counts) for name, counts in self._bins.items()}
        return Census(self._kernels, spreads, Spread(self._grid.cells, self._cells), shared)


def _shared(joint: Counter[tuple[int, int]]) -> float | None:
    """Return the mutual information of two axes as a share of the smaller entropy; None if one entropy is 0."""
    first: Counter[int] = Counter()
    second: Counter[int] = Counter()
    for (one, other), count in joint.items():
        first[one] += count
        second[other] += count
    poorer = min(_entropy(first.values()), _entropy(second.values()))
    if not poorer:
        return None
    both = _entropy(first.values()) + _entropy(second.values()) - _entropy(joint.values())
    return min(1.0, max(0.0, both / poorer))


def _entropy(counts: Iterable[int]) -> float:
    """Return the entropy of a distribution, bits."""
    kept = [count for count in counts if count]
    total = sum(kept)
    return max(0.0, sum(count / total * log2(total / count) for count in kept))
