"""Sizes that indices reach: which dimension bounds an integer argument, and which are one with it.

Tensors without data show that shapes fit. They do not show that an index lies within its axis: positions of packed
rows may reach as far as there are rows, so a table of positions has at least as many. So a problem with indices runs on
drawn values, at small sizes of which one differs.

Runs inside the sandbox.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, product

from workers.kernelbench.extents import Place, other_size

MORE = 6
"""Number by which the size under test exceeds the others."""
MOST_NAMES = 4
"""Maximum number of dimensions of one size of which every way to join them is tried; of more, none and all."""

Named = Mapping[str, tuple[Place, ...]]
Ranges = Mapping[str, tuple[int, int]]
Runs = Callable[[Named, Mapping[str, str], Mapping[str, int]], bool]
"""Function that returns True if the problem runs: with these dimensions, bounds of integers, and sizes."""


def bounds_of_indices(
    named: Named, published: Mapping[str, int], ranges: Ranges, ends: Mapping[str, tuple[int, int]], runs: Runs
) -> tuple[Named, Ranges, Mapping[str, str]]:
    """Return dimensions, some of them joined or without a range, and those that bound integer arguments.

    Args:
        named: Places of each dimension.
        published: Sizes of the first example.
        ranges: Ranges of the dimensions that vary.
        ends: Smallest and largest end that the values of integer arguments may have, by name.
        runs: Test of a choice at some sizes.
    """
    for extents_of in (_bounds, _bounds_with_sums):
        found = _bounded_by(extents_of, named, published, ranges, ends, runs)
        if found is not None:
            return found
    first = {argument: texts[0] for argument, end in ends.items() if (texts := _bounds(named, published, end))}
    for highs in (first, {}):
        if left := _held(published, ranges, partial(runs, named, highs)):
            return named, left, highs
    return named, {}, first


def _bounded_by(
    extents_of: Callable[[Named, Mapping[str, int], tuple[int, int]], list[str]],
    named: Named,
    published: Mapping[str, int],
    ranges: Ranges,
    ends: Mapping[str, tuple[int, int]],
    runs: Runs,
) -> tuple[Named, Ranges, Mapping[str, str]] | None:
    """Return the first choice of extents with which the problem runs; None if there is none."""
    sizes = {published[name] for bounds in ends.values() for name in _within(named, published, bounds)}
    alike = [[name for name in named if published[name] == size and name in ranges] for size in sorted(sizes)]
    for joined in product(*map(_partitions, alike)):
        kept = {name: named[name] for name in named if not any(name in names for names in alike)}
        kept |= {
            group[0]: tuple(sorted(place for name in group for place in named[name])) for way in joined for group in way
        }
        kept = {name: kept[name] for name in named if name in kept}
        choices = [[(argument, name) for name in extents_of(kept, published, end)] for argument, end in ends.items()]
        for chosen in product(*filter(None, choices)):
            left = _varying(kept, published, ranges, partial(runs, kept, dict(chosen)))
            if left is not None:
                return kept, left, dict(chosen)
    return None


def _varying(
    named: Named, published: Mapping[str, int], ranges: Ranges, runs: Callable[[Mapping[str, int]], bool]
) -> Ranges | None:
    """Return the ranges without one whose small sizes an index passes; None if a larger size of another fails."""
    left = {name: ranges[name] for name in named if name in ranges}
    small = {name: left[name][0] if name in left else published[name] for name in named}
    if not runs(small):
        fixed = next((name for name in left if runs({**small, name: published[name]})), None)
        if fixed is None:
            return None
        small[fixed] = published[fixed]
        del left[fixed]
    return left if all(map(runs, _larger(small, published, left))) else None


def _held(published: Mapping[str, int], ranges: Ranges, runs: Callable[[Mapping[str, int]], bool]) -> Ranges:
    """Return the ranges, in their order, with which no index passes a size."""
    left: dict[str, tuple[int, int]] = {}
    for name, bounds in ranges.items():
        more = {**left, name: bounds}
        small = {**published, **{each: low for each, (low, _) in more.items()}}
        if all(map(runs, (small, *_larger(small, published, more)))):
            left = more
    return left


def _larger(small: Mapping[str, int], published: Mapping[str, int], ranges: Ranges) -> list[dict[str, int]]:
    """Return sizes of which one is a little larger than the smallest."""
    most = {name: small[name] + MORE for name in ranges}
    return [
        {**small, name: most[name] if most[name] < published[name] else other_size(published[name])} for name in most
    ]


def _within(named: Named, published: Mapping[str, int], bounds: tuple[int, int]) -> list[str]:
    """Return the dimensions that may be the end of indices, the nearest first."""
    found = [name for name in named if bounds[0] <= published[name] <= bounds[1]]
    return sorted(found, key=lambda name: published[name])


def _bounds(named: Named, published: Mapping[str, int], bounds: tuple[int, int]) -> list[str]:
    """Return the same; behind those of that very size the one that is one less, which is the longest of lengths."""
    found = _within(named, published, bounds)
    exact = [name for name in found if published[name] == bounds[0]]
    less = [f"{name}+1" for name in named if published[name] + 1 == bounds[0]]
    return exact + (less if len(less) == 1 else []) + found[len(exact) :]


def _bounds_with_sums(named: Named, published: Mapping[str, int], bounds: tuple[int, int]) -> list[str]:
    """Return the same, and after them the sums of two dimensions, as of tensors that are joined."""
    sums = {f"{one}+{other}": published[one] + published[other] for one, other in combinations(named, 2)}
    found = [text for text, size in sums.items() if bounds[0] <= size <= bounds[1]]
    return _bounds(named, published, bounds) + sorted(found, key=sums.__getitem__)


def _partitions(names: Sequence[str]) -> list[list[list[str]]]:
    """Return the ways to join names to groups, those with many groups first."""
    if len(names) > MOST_NAMES:
        return [[[name] for name in names], [[*names]]]
    found: list[list[list[str]]] = [[]]
    for name in names:
        found = [
            [*way[:at], [*way[at], name], *way[at + 1 :]] if at < len(way) else [*way, [name]]
            for way in found
            for at in range(len(way) + 1)
        ]
    return sorted(found, key=len, reverse=True)
