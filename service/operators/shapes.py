"""Shapes that a candidate must get right besides the benchmark's: boundary shapes, and shapes it cannot know before.

Both are drawn from the operator's `ranges`. A dimension without a range keeps its size in the first benchmark shape.
"""

import math
import random
from collections.abc import Callable, Container, Sequence

from workers.protocol import Operator, Shape, ShapeRole

INTERPRETED_ELEMENTS = 2**16
"""Elements of all inputs together that Triton's interpreter gets through in well under a second."""
INTERPRETED_ROWS = 160
"""Rows of any input, all dimensions but the last: often the number of programs, at 2 to 5 ms each (measured)."""
INTERPRETED_VOLUME = 2**21
"""Product of all dimensions of inputs, and of their fixed sizes: bounds the multiplications of a matrix product, and
the elements of its result."""
HELD_OUT_BYTES = 128 * 2**20
"""Bytes of all inputs of a held-out shape: checking one must stay cheap beside the benchmark shapes."""

TALL = 149
"""More rows than a B200 has processors (148), so that persistent kernels come round again. Prime."""
TILE = 128
"""A size that common tiles divide; one more leaves a tail."""
LONG = 8191
"""Longer than the block of most loops over a row, and one short of a power of two. Prime."""

ATTEMPTS = 64
"""Draws of a held-out shape before it is cut to size instead."""

Dims = dict[str, int]
Fits = Callable[[Operator, Dims], bool]


def all_shapes(operator: Operator, seed: int) -> tuple[Shape, ...]:
    """Every shape that a candidate is traced for, without duplicates.

    Boundary shapes come first, the cheapest leading, since most wrong candidates fail there; then benchmark shapes in
    the operator's order; then held-out shapes.
    """
    benchmark = (Shape(dims=item.dims, weight=item.weight) for item in operator.shapes)
    timed = {shape.key: shape for shape in benchmark}
    checked = [shape for shape in boundary_shapes(operator) if shape.key not in timed]
    return (*checked, *timed.values(), *held_out_shapes(operator, seed))


def boundary_shapes(operator: Operator) -> tuple[Shape, ...]:
    """At most five shapes at which kernels break, small enough to be interpreted on a CPU, the cheapest first.

    The smallest; tall with odd short rows; exact tiles; one more than exact tiles; long rows. Sizes that only scalars
    have, such as a window, are less than those of inputs there, and once more. An operator without ranges has none.
    Where the smallest shape is too large to be interpreted it is the only one.
    """
    names = [name for name in operator.extents if name in operator.ranges]
    if not names:
        return ()
    aside = [name for name in operator.ranges if name not in operator.extents]
    patterns = (
        _pattern(names, first=1, between=1, last=1) | dict.fromkeys(aside, 1),
        _pattern(names, first=TALL, between=3, last=5) | dict.fromkeys(aside, 2),
        _pattern(names, first=TILE // 2, between=TILE, last=TILE) | dict.fromkeys(aside, TILE // 4),
        _pattern(names, first=17, between=TILE + 1, last=TILE + 1) | dict.fromkeys(aside, 17),
        _pattern(names, first=3, between=2, last=LONG) | dict.fromkeys(aside, LONG),
    )
    points = [_cut(operator, _clamped(operator, sizes), _interpretable) for sizes in patterns]
    usable = [dims for dims in points if _interpretable(operator, dims)] or points[:1]
    shapes = (Shape(dims=dims, role=ShapeRole.BOUNDARY) for dims in sorted(usable, key=operator.input_bytes))
    return tuple({shape.key: shape for shape in shapes}.values())


def held_out_shapes(operator: Operator, seed: int, count: int = 2) -> tuple[Shape, ...]:
    """Shapes drawn from the ranges, log-uniformly, the same ones for the same seed.

    The first is small enough to be interpreted, the others take at most `HELD_OUT_BYTES`. None is a benchmark or a
    boundary shape. Fewer than `count` come back where the ranges hold no more.
    """
    if not operator.ranges:
        return ()
    rng = random.Random(f"{operator.name}:{seed}")
    known = {Shape(dims=item.dims).key for item in operator.shapes}
    known |= {shape.key for shape in boundary_shapes(operator)}
    drawn: dict[str, Shape] = {}
    for index in range(count):
        fits = _affordable if index else _interpretable
        shape = Shape(dims=_drawn(operator, rng, fits, known | set(drawn)), role=ShapeRole.HELD_OUT)
        drawn[shape.key] = shape
    return tuple(shape for key, shape in drawn.items() if key not in known)


def random_shapes(operator: Operator, seed: int, count: int, known: Container[str], *, small: bool) -> list[Shape]:
    """Shapes for a finalist, drawn from the ranges log-uniformly by a secret seed.

    Args:
        operator: Gives the ranges.
        seed: The secret.
        count: Most of them.
        known: Keys of shapes that it was judged at.
        small: Whether they must be interpretable; else they take at most `HELD_OUT_BYTES`.

    Returns:
        No two alike; fewer where the ranges hold no more, none without ranges.
    """
    rng = random.Random(seed)
    found: dict[str, Shape] = {}
    for _ in range(count if operator.ranges else 0):
        dims = _drawn(operator, rng, _interpretable if small else _affordable, found)
        shape = Shape(dims=dims, role=ShapeRole.RANDOM)
        found[shape.key] = shape
    return [shape for key, shape in found.items() if key not in known]


def _pattern(names: Sequence[str], *, first: int, between: int, last: int) -> Dims:
    """Sizes by place: for the first of the dimensions, for the last one (or the only one), for all others."""
    return {name: between for name in names} | {names[0]: first} | {names[-1]: last}


def _drawn(operator: Operator, rng: random.Random, fits: Fits, known: Container[str]) -> Dims:
    """A point that fits and is new, or after many tries the last one drawn, cut until it fits."""
    for _ in range(ATTEMPTS):
        dims = _clamped(operator, {name: _log_uniform(rng, *bounds) for name, bounds in operator.ranges.items()})
        if fits(operator, dims) and Shape(dims=dims).key not in known:
            return dims
    return _cut(operator, dims, fits)


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


def _clamped(operator: Operator, sizes: Dims) -> Dims:
    """A point of the space: these sizes within their ranges, every other dimension as in the first benchmark shape."""
    ranged = {name: max(low, min(high, sizes[name])) for name, (low, high) in operator.ranges.items()}
    return {name: ranged.get(name, operator.shapes[0].dims[name]) for name in operator.dimensions}


def _cut(operator: Operator, dims: Dims, fits: Fits) -> Dims:
    """Halve dimensions, leading ones first, until the shape fits or is the smallest there is."""
    dims = dict(dims)
    for name in operator.extents:
        low, _ = operator.ranges.get(name, (dims[name], dims[name]))
        while dims[name] > low and not fits(operator, dims):
            dims[name] = max(low, dims[name] // 2)
    return dims


def _interpretable(operator: Operator, dims: Dims) -> bool:
    shapes = [operator.input_shape(item, dims) for item in operator.given]
    return (
        sum(map(math.prod, shapes)) <= INTERPRETED_ELEMENTS
        and max(math.prod(shape[:-1]) for shape in shapes) <= INTERPRETED_ROWS
        and math.prod(dims[name] for name in operator.extents) * _fixed(operator) <= INTERPRETED_VOLUME
    )


def _fixed(operator: Operator) -> int:
    """The most elements that sizes without a name give an input, such as those of a page or of a group of weights."""
    return max(math.prod(extent for extent in item.shape if isinstance(extent, int)) for item in operator.given)


def _affordable(operator: Operator, dims: Dims) -> bool:
    return operator.input_bytes(dims) <= HELD_OUT_BYTES
