"""Shapes to check besides the benchmark's: boundary shapes, and secret held-out and random shapes.

All come from the operator's `ranges`. Dimensions without a range take their sizes together from one benchmark shape;
boundary shapes mostly from the first.
"""

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Sequence
from itertools import permutations, product

from workers.protocol import FAR, Input, Operator, Shape, ShapeRole
from workers.protocol.extent import names_in

INTERPRETED_ELEMENTS = 2**16
"""Maximum elements of all inputs that Triton's interpreter processes in well under a second."""
INTERPRETED_ROWS = 160
"""Maximum rows of an input, over all dimensions but the last: often one program each, at 2 to 5 ms (measured)."""
INTERPRETED_VOLUME = 2**21
"""Maximum product of all dimensions of inputs and their fixed sizes: it bounds the multiplications of a matrix product
and the elements of its result."""
ROOMY_ELEMENTS = 2**19
"""Maximum elements of all inputs of a shape with two of everything: few programs process many of them."""
ROOMY_ROWS = 1200
"""Maximum rows of an input there: 17 texts of 70 tokens are 1190."""
ROOMY_PRODUCTS = 2**23
"""Maximum elements of an input there, times another input's along fixed dimensions, such as taps of a kernel."""
HELD_OUT_BYTES = 128 * 2**20
"""Maximum bytes of all inputs of a held-out shape: its check must cost little beside the benchmark shapes."""

TALL = 149
"""Number of rows above the 148 processors of a B200, so that persistent kernels loop. Prime."""
TILE = 128
"""Size that common tiles divide; one more leaves a tail."""
LONG = 8191
"""Row length above the block of most loops over a row, and one below a power of two. Prime."""
TWO_TILES = 140
"""Size above a tile of 128; repeated halves are above tiles of 64, 32 and 16."""
FEWEST_ROWS = 17
"""Minimum size of a dimension until all others are cut too: the check `bias` needs 16 rows."""
ROOMY_AXES = 4
"""Number of axes from which all but an input's last two count equal parts, such as heads."""

MOST_COMBINED = 3
"""Maximum number of optional inputs whose every combination is judged."""
ATTEMPTS = 64
"""Number of draws of a held-out shape before the last one is cut to size."""

Dims = dict[str, int]
Fits = Callable[[Operator, Dims], bool]


def all_shapes(operator: Operator, seed: int) -> tuple[Shape, ...]:
    """Return every shape that a candidate is traced for, without duplicates.

    Boundary shapes come first, cheapest first, because most wrong candidates fail there. Benchmark shapes follow in the
    operator's order, then held-out shapes.
    """
    benchmark = (Shape(dims=item.dims, weight=item.weight) for item in operator.shapes)
    timed = {shape.key: shape for shape in benchmark}
    checked = [shape for shape in (*boundary_shapes(operator), *end_shapes(operator)) if shape.key not in timed]
    return (*checked, *timed.values(), *held_out_shapes(operator, seed))


def boundary_shapes(operator: Operator) -> tuple[Shape, ...]:
    """Return a few shapes at which kernels break, small enough for the interpreter, cheapest first.

    They are: the smallest; many odd short rows; exact tiles; one more than exact tiles; long rows; two of everything;
    and a small version of the last for each other combination of fixed sizes in benchmark shapes, and of absent inputs.
    Of each dimension that may be 0 there is a shape without elements. Dimensions that only
    scalars have, such as a window, are smaller than those of inputs there, and larger once. An operator without ranges
    has only those with absent inputs. If the smallest shape is too large for the interpreter, it is the only one.
    """
    names = [name for name in operator.extents if name in operator.ranges]
    if not names:
        return _shapes(operator, _fixed_sizes(operator)[1:] if operator.presences else [])
    aside = [name for name in operator.ranges if name not in operator.extents]
    patterns = (
        _pattern(names, first=1, between=1, last=1) | dict.fromkeys(aside, 1),
        _pattern(names, first=TALL, between=3, last=5) | dict.fromkeys(aside, 2),
        _pattern(names, first=TILE // 2, between=TILE, last=TILE) | dict.fromkeys(aside, TILE // 4),
        _pattern(names, first=17, between=TILE + 1, last=TILE + 1) | dict.fromkeys(aside, 17),
        _pattern(names, first=3, between=2, last=LONG) | dict.fromkeys(aside, LONG),
    )
    first, *others = _fixed_sizes(operator)
    points = [_cut(operator, _clamped(operator, sizes, first), _interpretable) for sizes in patterns]
    usable = [dims for dims in points if _interpretable(operator, dims)] or points[:1]
    doubled = [_doubled(operator, TWO_TILES, first), *(_doubled(operator, TWO_TILES // 2, each) for each in others)]
    usable += [dims for dims in doubled if _is_roomy(operator, dims)]
    empty = _pattern(names, first=2, between=3, last=5) | dict.fromkeys(aside, 1)
    zeros = [name for name in operator.ranges if operator.ranges[name][0] == 0]
    usable += [_clamped(operator, {**empty, name: 0}, first) for name in zeros]
    return _shapes(operator, usable)


def _shapes(operator: Operator, points: Sequence[Dims]) -> tuple[Shape, ...]:
    """Return different boundary shapes, the fewest bytes first."""
    shapes = (Shape(dims=dims, role=ShapeRole.BOUNDARY) for dims in sorted(points, key=operator.input_bytes))
    return tuple({shape.key: shape for shape in shapes}.values())


def end_shapes(operator: Operator) -> tuple[Shape, ...]:
    """Return shapes with the longest rows of each input, and with the most rows, unless a boundary shape has them.

    Blocks and grids follow from one dimension each, so all others are as small as their ranges allow. Without these
    shapes a held-out shape would decide by chance about a block that does not fit the target. Dimensions between, such
    as heads, have such a shape if the interpreter manages it: a kernel may go wrong from some number of them on.
    """
    known = [shape.dims for shape in boundary_shapes(operator)]
    least = {name: max(1, low) for name, (low, _) in operator.ranges.items()}
    rows = (item.shape[-1] for item in operator.given if item.shape)
    outer = dict.fromkeys(name for extent in (*rows, *operator.given[0].shape[:1]) for name in names_in(extent))
    found = []
    for name in dict.fromkeys((*outer, *operator.extents)):
        if name in operator.ranges and all(dims[name] < operator.ranges[name][1] for dims in known):
            dims = _clamped(operator, {**least, name: operator.ranges[name][1]}, _fixed_sizes(operator)[0])
            if (_affordable if name in outer else _interpretable)(operator, dims):
                found.append(Shape(dims=dims, role=ShapeRole.BOUNDARY))
    return tuple(found)


def held_out_shapes(operator: Operator, seed: int) -> tuple[Shape, ...]:
    """Draw two shapes from the ranges log-uniformly; equal seeds give equal shapes.

    The first is small enough for the interpreter, the other takes at most `HELD_OUT_BYTES`. Neither is a benchmark or
    boundary shape. There are fewer if the ranges hold no more shapes.
    """
    if not operator.ranges:
        return ()
    rng = random.Random(f"{operator.name}:{seed}")
    known = {Shape(dims=item.dims).key for item in operator.shapes}
    known |= {shape.key for shape in (*boundary_shapes(operator), *end_shapes(operator))}
    drawn: dict[str, Shape] = {}
    for fits in (_interpretable, _affordable):
        shape = Shape(dims=_drawn(operator, rng, fits, known | set(drawn)), role=ShapeRole.HELD_OUT)
        drawn[shape.key] = shape
    return tuple(shape for key, shape in drawn.items() if key not in known)


def random_shapes(operator: Operator, seed: int, count: int, known: Container[str], *, small: bool) -> list[Shape]:
    """Draw shapes for a finalist from the ranges, log-uniformly, by a secret seed.

    Args:
        operator: Operator with the ranges.
        seed: Secret seed.
        count: Maximum number of shapes.
        known: Keys of shapes that it was judged at.
        small: True if the interpreter must manage them; otherwise they take at most `HELD_OUT_BYTES`.

    Returns:
        Distinct shapes; fewer than `count` if the ranges hold no more, none without ranges.
    """
    rng = random.Random(seed)
    found: dict[str, Shape] = {}
    points = math.prod(high - low + 1 for low, high in operator.ranges.values()) * len(_fixed_sizes(operator))
    for _ in range(count if operator.ranges else 0):
        if len(found) == points:  # No further shape exists, and the search for one would take many draws.
            break
        dims = _drawn(operator, rng, _interpretable if small else _affordable, found)
        shape = Shape(dims=dims, role=ShapeRole.RANDOM)
        found[shape.key] = shape
    return [shape for key, shape in found.items() if key not in known]


def far_shape(operator: Operator) -> Shape | None:
    """Return the smallest shape in the ranges at which an input has more than 2^31 elements; None without such a shape.

    All dimensions are minimal except those of one input. These grow to the ends of their ranges one after the other,
    the last one no further than needed. Among all inputs and orders, the shape with the fewest input bytes wins.
    """
    least = {name: max(1, low) for name, (low, _) in operator.ranges.items()}
    points = [
        dims
        for fixed in _fixed_sizes(operator)
        for item in operator.given
        for order in permutations(dict.fromkeys(name for name in _names_of(item) if name in operator.ranges))
        if operator.is_far(dims := _grown(operator, _clamped(operator, least, fixed), item, order))
    ]
    nearest = min(points, key=operator.input_bytes, default=None)
    return None if nearest is None else Shape(dims=nearest, role=ShapeRole.RANDOM)


def _grown(operator: Operator, dims: Dims, item: Input, order: Sequence[str | int]) -> Dims:
    """Grow dimensions one after the other until an input has more than 2^31 elements or all are maximal."""
    grown = dict(dims)
    for name in map(str, order):
        sizes = range(grown[name], operator.ranges[name][1])

        def elements(size: int, name: str = name) -> int:
            return math.prod(operator.input_shape(item, {**grown, name: size}))

        grown[name] = sizes.start + bisect_right(sizes, FAR, key=elements)
    return grown


def _pattern(names: Sequence[str], *, first: int, between: int, last: int) -> Dims:
    """Return sizes by position: of the first dimension, of the last (or only) one, and of all others."""
    return {name: between for name in names} | {names[0]: first} | {names[-1]: last}


def _doubled(operator: Operator, size: int, fixed: Dims) -> Dims:
    """Return a shape with two of everything: a second block's address may be right in the first head only.

    Counted dimensions, such as heads and experts, get 2 or 3. All others get `size`, which includes the elements of
    fixed axes behind them. The first dimension that only scalars have, such as a window, gets half of it.
    """
    counted, behind = _counted(operator), _behind(operator)
    aside = [name for name in operator.ranges if name not in operator.extents]
    sizes = {name: max(2, size // behind.get(name, 1)) for name in operator.extents}
    sizes |= {name: 3 if index else 2 for index, name in enumerate(counted)}
    sizes |= {name: 3 if index else size // 2 for index, name in enumerate(aside)}
    dims = _clamped(operator, sizes, fixed)
    return _cut(operator, _cut(operator, dims, _is_roomy, FEWEST_ROWS), _is_roomy)


def _counted(operator: Operator) -> list[str]:
    """Return the dimensions before the last two of an input with four or more axes, or of two inputs."""
    met: Counter[str] = Counter()
    for item in operator.inputs:
        worth = 2 if len(item.shape) >= ROOMY_AXES else 1
        met.update({name: worth for extent in item.shape[:-2] for name in names_in(extent)})
    return [name for name in operator.extents if met[name] > 1]


def _behind(operator: Operator) -> Dims:
    """Return the maximum elements of fixed axes right behind each dimension, such as those of a group of weights."""
    found: Dims = {}
    for item in operator.inputs:
        name = ""
        elements = 1
        for extent in item.shape:
            name, elements = (names_in(extent)[-1], 1) if isinstance(extent, str) else (name, elements * extent)
            found[name] = max(found.get(name, 1), elements)
    return found


def _drawn(operator: Operator, rng: random.Random, fits: Fits, known: Container[str]) -> Dims:
    """Draw a point that fits and is new; after `ATTEMPTS` draws, cut the last one until it fits."""
    fixed = _fixed_sizes(operator)
    for _ in range(ATTEMPTS):
        sizes = {name: _log_uniform(rng, *bounds) for name, bounds in operator.ranges.items()}
        dims = _clamped(operator, sizes, rng.choice(fixed) if len(fixed) > 1 else fixed[0])
        if fits(operator, dims) and Shape(dims=dims).key not in known:
            return dims
    return _cut(operator, dims, fits)


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    """Draw a size; the logarithm of one more than it is even, if it may be 0."""
    added = int(low == 0)
    return min(high, int(math.exp(rng.uniform(math.log(low + added), math.log(high + 1 + added)))) - added)


def _fixed_sizes(operator: Operator) -> list[Dims]:
    """Return the distinct combinations of sizes of dimensions without a range, in the order of benchmark shapes.

    Those that only name other absent inputs follow: each of few, of many inputs all, and each of them alone.
    """
    fixed = [name for name in operator.dimensions if name not in operator.ranges]
    named = [item.dims for item in operator.shapes]
    named += [{**named[0], **given} for given in _presences(operator.presences)]
    return list({tuple(dims[name] for name in fixed): dims for dims in named}.values())


def _presences(names: Sequence[str]) -> list[Dims]:
    if len(names) <= MOST_COMBINED:
        return [dict(zip(names, given, strict=True)) for given in product((1, 0), repeat=len(names))]
    all_given, none_given = dict.fromkeys(names, 1), dict.fromkeys(names, 0)
    apart = [{**most, name: given} for most, given in ((all_given, 0), (none_given, 1)) for name in names]
    return [all_given, none_given, *apart]


def _clamped(operator: Operator, sizes: Dims, fixed: Dims) -> Dims:
    """Clamp sizes to their ranges, and add the fixed sizes of dimensions without a range."""
    ranged = {name: max(low, min(high, sizes[name])) for name, (low, high) in operator.ranges.items()}
    return {name: ranged.get(name, fixed[name]) for name in operator.dimensions}


def _cut(operator: Operator, dims: Dims, fits: Fits, least: int = 1) -> Dims:
    """Halve dimensions, leading ones first, until the shape fits or all have their minimum, at least `least`."""
    dims = dict(dims)
    for name in operator.extents:
        low = max(least, operator.ranges.get(name, (dims[name], dims[name]))[0])
        while dims[name] > low and not fits(operator, dims):
            dims[name] = max(low, dims[name] // 2)
    return dims


def _interpretable(operator: Operator, dims: Dims) -> bool:
    return (
        _elements(operator, dims) <= INTERPRETED_ELEMENTS
        and max(math.prod(operator.input_shape(item, dims)[:-1]) for item in operator.given) <= INTERPRETED_ROWS
        and math.prod(dims[name] for name in operator.extents) * _fixed(operator) <= INTERPRETED_VOLUME
    )


def _is_roomy(operator: Operator, dims: Dims) -> bool:
    """Return True if a shape can be interpreted once or twice; fixed axes at an input's end belong to its rows."""
    ends = [len(item.shape) - _fixed_end(item.shape) for item in operator.given]
    shapes = [operator.input_shape(item, dims)[:end] for item, end in zip(operator.given, ends, strict=True)]
    return (
        _elements(operator, dims) <= ROOMY_ELEMENTS
        and max(math.prod(shape[:-1]) for shape in shapes) <= ROOMY_ROWS
        and _products(operator, dims) <= ROOMY_PRODUCTS
    )


def _products(operator: Operator, dims: Dims) -> int:
    """Return the maximum elements of an input, times the fixed dimensions that only another input has."""
    fixed = {*operator.extents} - {*operator.ranges}
    return max(
        math.prod(operator.input_shape(item, dims))
        * math.prod(dims[name] for name in _names_of(other) if name in fixed - {*_names_of(item)})
        for item in operator.given
        for other in operator.given
    )


def _fixed_end(shape: Sequence[str | int]) -> int:
    """Return the number of trailing axes without a name."""
    return next((count for count, extent in enumerate(reversed(shape)) if isinstance(extent, str)), len(shape))


def _names_of(item: Input) -> list[str]:
    """Return the dimensions of an input, once for each axis."""
    return [name for extent in item.shape for name in names_in(extent)]


def _elements(operator: Operator, dims: Dims) -> int:
    return sum(math.prod(operator.input_shape(item, dims)) for item in operator.given)


def _fixed(operator: Operator) -> int:
    """Return the maximum product of an input's fixed sizes, such as those of a page or of a group of weights."""
    ones = dict.fromkeys(operator.dimensions, 1)
    return max(math.prod(operator.input_shape(item, ones)) for item in operator.given)


def _affordable(operator: Operator, dims: Dims) -> bool:
    return operator.input_bytes(dims) <= HELD_OUT_BYTES
