"""Sizes of a problem that may change, and their ranges: found by running its module on tensors without data.

Runs inside the sandbox. A problem is published at one size, which is too large to judge without a card and hides faults
at odd sizes. So sizes are made smaller where the module accepts it. Extents that change with one number of the file are
one dimension. Of all others, each is one with as few others of its size as the module needs to run.
"""

import math
import random
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

SMALLEST = 16
"""Smallest size that may change; smaller ones, such as kernels of convolutions, colours or heads, gain little."""
SMALLEST_LEADING = 2
"""Smallest size of an argument's first extent that may change."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Candidates for the smallest size of a dimension."""
DRAWS = 12
"""Random points between smallest and published that must work too; a module that needs multiples of 8 fails at most."""
PAIRED = 12
"""Maximum number of extents of one size for which pairs are tried."""

Place = tuple[int, int]
"""Index of a tensor, and one of its axes."""
Works = Callable[[Mapping[Place, int]], bool]
"""Function that returns True if the module runs with these sizes of extents."""


@dataclass(frozen=True)
class SizeNumber:
    """A number of a file that is the size of extents.

    Attributes:
        name: Its name in the file; empty if it has none.
        places: Extents of this size that change with it.
    """

    name: str
    places: tuple[Place, ...]


def find_dimensions(
    shapes: Sequence[Sequence[int]],
    works: Works,
    numbers: Sequence[SizeNumber] = (),
    leading: Set[Place] = frozenset(),
    alone: Container[int] | None = None,
    given: Container[int] = (),
) -> tuple[tuple[Place, ...], ...]:
    """Return sets of places whose sizes may change together, without any others.

    Args:
        shapes: Shapes of all tensors.
        works: Test of other sizes.
        leading: First extents of arguments, such as a batch, which may change even if they are small.
        numbers: Numbers of the file that are sizes. Extents of one with a name are one dimension, or none.
        alone: Indices of tensors whose extents may change without a number; None for all.
        given: Indices of arguments. A weight may have the size of their extents by chance.
    """

    def size_of(place: Place) -> int:
        return shapes[place[0]][place[1]]

    def may_vary(place: Place) -> bool:
        return size_of(place) >= (SMALLEST_LEADING if place in leading else SMALLEST)

    each = [number.places for number in numbers if all(may_vary(place) for place in number.places)]
    found = [places for places in each if works({place: other_size(size_of(place)) for place in places})]
    named = [number.places for number in numbers if number.name]
    taken = {place for places in (*found, *named) for place in places}
    by_size: dict[int, list[Place]] = {}
    for index, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            may = alone is None or index in alone
            if may and may_vary((index, axis)) and (index, axis) not in taken:
                by_size.setdefault(size, []).append((index, axis))
    for size, places in by_size.items():
        found += _tied(places, size, works, given)
    return tuple(sorted({*found}))


def other_size(size: int) -> int:
    """Return a size that a module with a dimension of this size accepts, but none that needs a multiple.

    One less than an even published size is odd. One itself is no such size: it broadcasts where nothing varies.
    """
    return size - 1 if size > 2 else size + 1


def _tied(places: list[Place], size: int, works: Works, given: Container[int]) -> list[tuple[Place, ...]]:
    """Return the smallest sets of places of one size that may change together: single ones, pairs, and more."""

    def may_change(group: Sequence[Place]) -> bool:
        return works(dict.fromkeys(group, other_size(size)))

    def left() -> list[Place]:
        return [place for place in places if not any(place in group for group in found)]

    found: list[tuple[Place, ...]] = []
    for count in (1, 2) if len(places) <= PAIRED else (1,):
        for group in combinations(left(), count):
            if not any(place in other for place in group for other in found) and may_change(group):
                found.append(group)
    for together in ([place for place in left() if place[0] in given], left()):
        if len(together) > 2 and not any(place in group for place in together for group in found):
            found += [tuple(_without_others(together, may_change))] if may_change(together) else []
    return found


def _without_others(places: Sequence[Place], may_change: Callable[[Sequence[Place]], bool]) -> list[Place]:
    """Return the places that must change with the first, as far as leaving out one or two at a time shows."""
    kept = list(places)
    for count in (1, 2):
        for group in combinations(places[1:], count):
            fewer = [place for place in kept if place not in group]
            if len(fewer) == len(kept) - count and may_change(fewer):
                kept = fewer
    return kept


def varied(rows: Sequence[Sequence[Sequence[int]]]) -> tuple[tuple[Place, ...], ...]:
    """Return sets of places whose sizes vary together over examples.

    Args:
        rows: Shapes of all tensors in each example.
    """
    by_sizes: dict[tuple[int, ...], list[Place]] = {}
    for index, shape in enumerate(rows[0]):
        for axis in range(len(shape)):
            sizes = tuple(row[index][axis] for row in rows)
            if len(set(sizes)) > 1:
                by_sizes.setdefault(sizes, []).append((index, axis))
    return tuple(sorted(tuple(places) for places in by_sizes.values()))


def find_ranges(
    dimensions: Mapping[str, tuple[Place, ...]], published: Mapping[str, int], works: Works
) -> dict[str, tuple[int, int]]:
    """Return the smallest and largest size of each dimension at which the module runs; the largest is as published.

    Args:
        dimensions: Places of each dimension.
        published: Published size of each dimension.
        works: Test of other sizes.
    """

    def runs(sizes: Mapping[str, int]) -> bool:
        return works({place: size for name, size in sizes.items() for place in dimensions[name]})

    lows = {name: _lowest(name, published[name], runs) for name in dimensions}
    while lows and not runs(lows):
        raised = {name: _next_step(low, published[name]) for name, low in lows.items()}
        lows = {} if raised == lows else raised
    kept = {name: (low, published[name]) for name, low in lows.items() if low < published[name]}
    while kept and not _everywhere(kept, runs):
        kept = _without_worst(kept, runs)
    return kept


def _lowest(name: str, published: int, runs: Callable[[Mapping[str, int]], bool]) -> int:
    """Return the smallest size of one dimension at which the module runs, with the others as published."""
    return next((step for step in STEPS if step < published and runs({name: step})), published)


def _next_step(low: int, published: int) -> int:
    return next((step for step in STEPS if low < step < published), published)


def _everywhere(ranges: Mapping[str, tuple[int, int]], runs: Callable[[Mapping[str, int]], bool]) -> bool:
    rng = random.Random(0)
    points = [{name: _log_uniform(rng, *bounds) for name, bounds in ranges.items()} for _ in range(DRAWS)]
    return all(runs(point) for point in points)


def _without_worst(
    ranges: Mapping[str, tuple[int, int]], runs: Callable[[Mapping[str, int]], bool]
) -> dict[str, tuple[int, int]]:
    """Return the ranges without one that makes the others fail, or without the last."""
    for name in ranges:
        others = {other: bounds for other, bounds in ranges.items() if other != name}
        if _everywhere(others, runs):
            return others
    return dict(list(ranges.items())[:-1])


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))
