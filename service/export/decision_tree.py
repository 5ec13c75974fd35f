"""A small decision tree over sizes, grown from times: which module serves a shape, or PyTorch where it is faster."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PYTORCH = "pytorch"
"""Name of PyTorch among the choices."""
MAX_DEPTH = 4
"""Maximum number of questions about a shape: a few hundred nanoseconds."""
LEAST_GAIN = 0.01
"""Least relative time, over all shapes of a node, that a question must save: below it is noise."""
LEAST_SHAPES = 2
"""Minimum number of shapes on each side of a question."""


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
    """Question whether a size is at most a limit."""

    size: str
    limit: int
    below: "Leaf | Question"
    above: "Leaf | Question"


Tree = Leaf | Question


def grow(shapes: Sequence[TimedShape], choices: Sequence[str], depth: int = MAX_DEPTH) -> Tree:
    """Grow a tree that loses the least time against the best choice at each shape.

    Args:
        shapes: Shapes with times.
        choices: All choices but PyTorch, the preferred first; one without times keeps its place.
        depth: Maximum number of questions to a leaf.
    """
    leaf, loss = _leaf(shapes, choices)
    best: tuple[float, str, int] | None = None
    for size, limit in _questions(shapes) if depth else ():
        parts = _parts(shapes, size, limit)
        if min(map(len, parts)) >= LEAST_SHAPES:
            split = sum(_leaf(part, choices)[1] for part in parts)
            if best is None or split < best[0]:
                best = (split, size, limit)
    if best is None or loss - best[0] < LEAST_GAIN * len(shapes):
        return leaf
    below, above = _parts(shapes, *best[1:])
    grown = Question(best[1], best[2], grow(below, choices, depth - 1), grow(above, choices, depth - 1))
    return grown.below if grown.below == grown.above else grown


def choose(tree: Tree, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the choices for a shape."""
    while isinstance(tree, Question):
        tree = tree.below if sizes[tree.size] <= tree.limit else tree.above
    return tree.order


def loss_of(tree: Tree, shapes: Sequence[TimedShape]) -> float:
    """Return the geometric mean of the tree's times over those of the best choice at each shape; 1 without times."""
    known = [shape for shape in shapes if shape.times]
    lost = sum(_loss(shape, choose(tree, shape.sizes)) for shape in known)
    return math.exp(lost / len(known)) if known else 1.0


def _leaf(shapes: Sequence[TimedShape], choices: Sequence[str]) -> tuple[Leaf, float]:
    """Return the best order for some shapes, and the sum of the logarithms of times lost by it."""
    names = [name for name in (*choices, PYTORCH) if any(name in shape.times for shape in shapes)]
    alone = {name: sum(_loss(shape, (name,)) for shape in shapes) for name in names}
    ranked = sorted(names, key=lambda name: alone[name])
    order = tuple(dict.fromkeys((*ranked, *choices)))
    order = order[: order.index(PYTORCH) + 1] if PYTORCH in order else order
    return Leaf(order), sum(_loss(shape, order) for shape in shapes)


def _loss(shape: TimedShape, order: Sequence[str]) -> float:
    """Return the logarithm of the time lost at a shape; a choice that cannot serve it loses to the slowest."""
    if not shape.times:
        return 0.0
    served = next((shape.times[name] for name in order if name in shape.times), 2 * max(shape.times.values()))
    return math.log(served / min(shape.times.values()))


def _questions(shapes: Sequence[TimedShape]) -> Iterator[tuple[str, int]]:
    """Yield limits between neighbouring sizes, in the middle of their logarithms."""
    for size in shapes[0].sizes if shapes else ():
        found = sorted({shape.sizes[size] for shape in shapes})
        for low, high in pairwise(found):
            yield size, max(low, min(high - 1, math.isqrt(low * high)))


def _parts(shapes: Sequence[TimedShape], size: str, limit: int) -> tuple[list[TimedShape], list[TimedShape]]:
    below = [shape for shape in shapes if shape.sizes[size] <= limit]
    return below, [shape for shape in shapes if shape.sizes[size] > limit]
