"""Which sizes of a problem may change, and how far: found by trying its module on tensors without data.

Runs inside the jail. A problem is published at one size. That alone cannot be judged where there is no card, and hides
what only fails at odd sizes; so sizes are made smaller where the module takes them. Tensors' extents of equal size are
one dimension, since nothing published tells them apart; where the module does not take them together they may be two.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

SMALLEST = 16
"""Sizes below it stay as they are: kernels of convolutions, colours, heads. Little is gained by making them smaller."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Sizes that are tried as the smallest of a dimension."""
DRAWS = 12
"""Points between smallest and published that must work besides; a module that takes multiples of 8 fails at most."""
PAIRED = 12
"""Most extents of one size among which pairs are looked for."""

Place = tuple[int, int]
"""A tensor's index, and one of its axes."""
Works = Callable[[Mapping[Place, int]], bool]
"""Whether the module runs where these extents have other sizes."""


def find_dimensions(shapes: Sequence[Sequence[int]], works: Works) -> tuple[tuple[Place, ...], ...]:
    """Sets of places whose sizes may change together and nothing else with them."""
    by_size: dict[int, list[Place]] = {}
    for index, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if size >= SMALLEST:
                by_size.setdefault(size, []).append((index, axis))
    return tuple(found for size, places in by_size.items() for found in _tied(tuple(places), size, works))


def _tied(places: tuple[Place, ...], size: int, works: Works) -> list[tuple[Place, ...]]:
    """All places of one size if they may change together, else those single ones and pairs that may."""
    # One less than published is odd where published is even: what needs a multiple fails.
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
    """Smallest and largest size of each dimension, between which the module runs; the largest is the published one.

    Args:
        dimensions: The places of each.
        published: The published size of each.
        works: Whether the module runs with other sizes.
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
    """The smallest size of one dimension at which the module runs, the others being as published."""
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
    """The ranges without one that spoils the others, or without the last."""
    for name in ranges:
        others = {other: bounds for other, bounds in ranges.items() if other != name}
        if _everywhere(others, runs):
            return others
    return dict(list(ranges.items())[:-1])


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))
