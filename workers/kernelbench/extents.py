"""Sizes of a problem that may change, and their ranges: found by running its module on tensors without data.

Runs inside the sandbox. A problem is published at one size, which is too large to judge without a card and hides faults
at odd sizes. So sizes are made smaller where the module accepts it. Extents of equal size are one dimension, because
the problem does not tell them apart. If the module does not accept their change together, they may be two.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

SMALLEST = 16
"""Smallest size that may change; smaller ones, such as kernels of convolutions, colours or heads, gain little."""
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


def find_dimensions(shapes: Sequence[Sequence[int]], works: Works) -> tuple[tuple[Place, ...], ...]:
    """Return sets of places whose sizes may change together, without any others."""
    by_size: dict[int, list[Place]] = {}
    for index, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if size >= SMALLEST:
                by_size.setdefault(size, []).append((index, axis))
    return tuple(found for size, places in by_size.items() for found in _tied(tuple(places), size, works))


def _tied(places: tuple[Place, ...], size: int, works: Works) -> list[tuple[Place, ...]]:
    """Return all places of one size if they may change together, else the single ones and pairs that may."""
    # One less than an even published size is odd, so a module that needs a multiple fails.
    if works(dict.fromkeys(places, size - 1)):
        return [places]
    found: list[tuple[Place, ...]] = []
    for count in (1, 2):
        left = [place for place in places if not any(place in group for group in found)]
        for group in combinations(left, count) if len(places) <= PAIRED else ():
            if not any(place in other for place in group for other in found) and works(dict.fromkeys(group, size - 1)):
                found.append(group)
    return found


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
