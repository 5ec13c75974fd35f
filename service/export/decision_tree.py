"""A small decision tree over sizes, grown from times: which module serves a shape, or PyTorch where it is faster."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from service.gaussian_process import Array

PYTORCH = "pytorch"
"""Name of PyTorch among the choices."""
MAX_DEPTH = 6
"""Maximum number of questions about a shape. A package asks them once per shape, and remembers the answer."""
LEAST_GAIN = 0.005
"""Least relative time, over all shapes of a node, that its questions must save: below it is noise."""
LEAST_SHARE = 0.0005
"""The same over all shapes of the tree, so that people can read it."""
LEAST_SHAPES = 2
"""Minimum number of shapes on each side of a question."""
ALIGNED = 16
"""Divisor of a size that decides about vector loads and tensor cores, so about other machine code."""


@dataclass(frozen=True)
class Feature:
    """Number that a question is about: a size, a product of sizes, or a size modulo 16.

    Attributes:
        sizes: Names of the sizes that are multiplied.
        modulo: Divisor whose remainder is taken; 0 for the product itself.
    """

    sizes: tuple[str, ...]
    modulo: int = 0

    def of(self, sizes: Mapping[str, int]) -> int:
        """Return the number for a shape."""
        product = math.prod(sizes[name] for name in self.sizes)
        return product % self.modulo if self.modulo else product


@dataclass(frozen=True)
class TimedShape:
    """Times at one shape, in one unit.

    Attributes:
        sizes: Its sizes.
        times: Time of each choice that can serve it.
    """

    sizes: Mapping[str, int]
    times: Mapping[str, float]


@dataclass(frozen=True)
class Leaf:
    """Choices in the order in which they are tried; those after PyTorch are not."""

    order: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """Question whether a feature is at most a limit."""

    feature: Feature
    limit: int
    below: "Leaf | Question"
    above: "Leaf | Question"


Tree = Leaf | Question


def features(sizes: Sequence[str], flags: Sequence[str] = ()) -> tuple[Feature, ...]:
    """Return the features that questions are about.

    Args:
        sizes: Names of sizes: each alone, the product of each two and of all, and each modulo 16.
        flags: Names of further numbers, each alone.
    """
    groups = [(name,) for name in (*sizes, *flags)] + list(combinations(sizes, 2)) + [tuple(sizes)]
    products = [Feature(group) for group in dict.fromkeys(groups) if group]
    return (*products, *(Feature((name,), ALIGNED) for name in sizes))


def grow(shapes: Sequence[TimedShape], choices: Sequence[str], asked: Sequence[Feature]) -> Tree:
    """Grow a tree that loses little time against the best choice at each shape.

    Args:
        shapes: Shapes with times.
        choices: All choices but PyTorch, the preferred first; one without times keeps its place.
        asked: Features that questions may be about.
    """
    known = [shape for shape in shapes if shape.times]
    if not known:
        return Leaf(tuple(choices))
    return _Grower(known, choices, asked).grown(np.arange(len(known)), MAX_DEPTH)[0]


def choose(tree: Tree, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the choices for a shape."""
    while isinstance(tree, Question):
        tree = tree.below if tree.feature.of(sizes) <= tree.limit else tree.above
    return tree.order


def loss_of(tree: Tree, shapes: Sequence[TimedShape]) -> float:
    """Return the geometric mean of the tree's times over those of the best choice at each shape; 1 without times."""
    known = [shape for shape in shapes if shape.times]
    lost = sum(_loss(shape, choose(tree, shape.sizes)) for shape in known)
    return math.exp(lost / len(known)) if known else 1.0


class _Grower:
    """Shapes as arrays: the logarithm of the time that each choice loses at each, and each feature's values."""

    def __init__(self, shapes: Sequence[TimedShape], choices: Sequence[str], asked: Sequence[Feature]) -> None:
        self._names = [name for name in (*choices, PYTORCH) if any(name in shape.times for shape in shapes)]
        self._choices = choices
        self._losses = np.array([[_loss(shape, (name,)) for name in self._names] for shape in shapes])
        self._values = {each: np.array([each.of(shape.sizes) for shape in shapes]) for each in asked}

    def grown(self, rows: "np.ndarray[tuple[int], np.dtype[np.intp]]", depth: int) -> tuple[Tree, float]:
        """Return a tree for some of the shapes, and the time that it loses.

        The best question is found before it is known whether it saves time: two questions may save much that neither
        saves alone. Those that save too little are removed again.
        """
        lost = self._losses[rows].sum(axis=0)
        leaf, own = self._leaf(lost), float(lost.min())
        best = self._question(rows, lost) if depth and own > 0 else None
        if best is None:
            return leaf, own
        feature, limit = best
        is_below = self._values[feature][rows] <= limit
        below, first = self.grown(rows[is_below], depth - 1)
        above, second = self.grown(rows[~is_below], depth - 1)
        least = max(LEAST_GAIN * len(rows), LEAST_SHARE * len(self._losses))
        if below == above or own - first - second < least:
            return leaf, own
        return Question(feature, limit, below, above), first + second

    def _question(self, rows: "np.ndarray[tuple[int], np.dtype[np.intp]]", lost: Array) -> tuple[Feature, int] | None:
        """Return the question that separates best; None if there is none."""
        found: list[tuple[float, Feature, int]] = []
        for feature, values in self._values.items():
            order = rows[np.argsort(values[rows], kind="stable")]
            ordered, below = values[order], self._losses[order].cumsum(axis=0)
            cuts = np.nonzero(ordered[1:] > ordered[:-1])[0]
            cuts = cuts[(cuts + 1 >= LEAST_SHAPES) & (cuts + 1 <= len(rows) - LEAST_SHAPES)]
            if len(cuts):
                mixed = _mixture(below[cuts]) + _mixture(lost - below[cuts])
                cut = cuts[int(mixed.argmin())]
                found.append((float(mixed.min()), feature, _between(int(ordered[cut]), int(ordered[cut + 1]))))
        return min(found, key=lambda each: each[0])[1:] if found else None

    def _leaf(self, lost: Array) -> Leaf:
        ranked = [self._names[at] for at in np.argsort(lost, kind="stable")]
        order = tuple(dict.fromkeys((*ranked, *self._choices)))
        return Leaf(order[: order.index(PYTORCH) + 1] if PYTORCH in order else order)


def _mixture(lost: Array) -> Array:
    """Return how mixed the best choices of some shapes are: the harmonic mean of the times lost by each choice alone.

    It is 0 if one choice loses nothing. The least of the times would not do: it stays the same for a question that
    leaves the majority on both sides as it was, so that a corner of the ranges would never be found.
    """
    found: Array = lost.shape[1] / (1.0 / np.maximum(lost, 1e-9)).sum(axis=1)
    return found


def _between(low: int, high: int) -> int:
    """Return a limit from `low` to below `high`, near the middle of their logarithms, with few digits."""
    middle = math.isqrt(low * high)
    near = (int(float(f"{middle:.{digits}g}")) for digits in (1, 2, 3))
    return next((limit for limit in near if low <= limit < high), max(low, min(high - 1, middle)))


def _loss(shape: TimedShape, order: Sequence[str]) -> float:
    """Return the logarithm of the time lost at a shape; a choice that cannot serve it loses to the slowest."""
    served = next((shape.times[name] for name in order if name in shape.times), 2 * max(shape.times.values()))
    return math.log(served / min(shape.times.values()))
