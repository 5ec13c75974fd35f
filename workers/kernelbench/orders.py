"""Orders of integer arguments, recognised from the values of examples.

Runs inside the sandbox. An order that is found is a proposal: it lets kernels rely on more than the dtype says.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import torch

from workers.protocol import Distribution
from workers.protocol.distribution import ORDERED_DTYPES

FEWEST_SORTED = 8
"""Minimum elements of a row that are called sorted: random ones are in order once in 8! draws."""
FEWEST_MARKED = 2
"""Minimum elements that are one negative number, of which there is no other, until it is called a marker; among places
to write to one is enough."""
CHANCE = 0.01
"""Probability that random integers differ by chance, below which different ones are called unique."""
NEAR = 8
"""Times that the mean gap between n different indices fits above the largest, once in e^8 draws at most."""
INTEGERS = (*ORDERED_DTYPES, "uint8", "int8", "int16")
"""Dtypes whose values bound an argument; the short ones have no order."""


@dataclass(frozen=True)
class ObservedOrder:
    """The order of an integer argument in an example.

    Attributes:
        distribution: The order; None for integers in any order.
        low: Smallest value, of sorted and other integers; 0 otherwise.
        high: End of the values as `Input.high` has it.
        reach: Largest end that the values may have had: a few random indices rarely hold the last one.
        marker: Negative number that some elements have in place of an index; None if there is none.
    """

    distribution: Distribution | None
    low: int
    high: int
    reach: int = field(default=0, compare=False)
    marker: int | None = None


def order_of(tensor: torch.Tensor, extents: Collection[int], *, are_places: bool = False) -> ObservedOrder | None:
    """Return the order of an argument along its last axis; None for floats and booleans, and without values.

    Args:
        tensor: The argument, with data.
        extents: Sizes that segments may add up to, or indices lie below: those of the other arguments.
        are_places: True if elements are written there: different ones are then no coincidence.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in INTEGERS or not tensor.numel():
        return None
    if dtype in ORDERED_DTYPES and (marked := _marked(tensor.long(), extents, are_places=are_places)):
        return marked
    rows = tensor.long().reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    low, high = int(rows.min()), int(rows.max())
    found = _ordered(rows, low, high, extents, are_places=are_places) if dtype in ORDERED_DTYPES else None
    return found or _unordered(tensor, low, high)


def _ordered(
    rows: torch.Tensor, low: int, high: int, extents: Collection[int], *, are_places: bool
) -> ObservedOrder | None:
    found = _different(rows, low, high, extents, are_places=True) if are_places else None
    found = found or _segments(rows, low, high, extents) or _sorted(rows, low, high)
    return found or _different(rows, low, high, extents, are_places=False)


def _marked(values: torch.Tensor, extents: Collection[int], *, are_places: bool) -> ObservedOrder | None:
    """Recognise indices among which one negative number stands for none, such as -100 for labels to ignore."""
    negative, indices = values[values < 0], values[values >= 0]
    fewest = 1 if are_places else FEWEST_MARKED
    if len(negative) < fewest or not len(indices) or bool((negative != negative[0]).any()):
        return None
    high = int(indices.max())
    if values.dim() == 1 and (different := _different(indices[None], 0, high, extents, are_places=are_places)):
        return replace(different, marker=int(negative[0]))
    return ObservedOrder(None, 0, high + 1, _reach(high + 1, len(indices)), int(negative[0]))


def _unordered(tensor: torch.Tensor, low: int, high: int) -> ObservedOrder:
    """Return the bounds of integers without an order; bytes that nearly fill their dtype may have all of its values."""
    reach, limits = _reach(high + 1, tensor.numel()), torch.iinfo(tensor.dtype)
    if limits.bits == 8 and reach >= limits.max and (low >= 0 or _reach(-low, tensor.numel()) >= limits.max):
        return ObservedOrder(None, limits.min if low < 0 else 0, limits.max + 1, limits.max + 1)
    return ObservedOrder(None, min(low, 0), high + 1, reach)


def _segments(rows: torch.Tensor, low: int, high: int, extents: Collection[int]) -> ObservedOrder | None:
    if low < 0 or rows.shape[1] < 2:
        return None
    falls = bool((rows.diff(dim=1) < 0).any())
    whole = high if not falls else int(rows[0].sum())
    ends = rows[:, -1] if not falls else rows.sum(dim=1)
    if whole < 2 or whole not in extents or bool((ends != whole).any()):
        return None
    if falls:
        return ObservedOrder(Distribution.COUNTS, 0, whole)
    starts = bool((rows[:, 0] == 0).all()) and rows.shape[1] > 2
    return ObservedOrder(Distribution.OFFSETS if starts or rows.shape[1] == 2 else Distribution.ENDS, 0, whole)


def taken_for_starts(order: ObservedOrder, extents: Collection[int]) -> ObservedOrder:
    """Return sorted integers as starts of segments of a size near behind them; others as they are."""
    near = [size for size in extents if order.high - 1 <= size <= max(order.reach, order.high)]
    if order.distribution is not Distribution.SORTED or order.low or not near:
        return order
    return ObservedOrder(Distribution.STARTS, 0, min(near))


def _sorted(rows: torch.Tensor, low: int, high: int) -> ObservedOrder | None:
    """Recognise sorted integers; those that count up, such as positions, are no order to rely on."""
    steps = rows.diff(dim=1)
    if rows.shape[1] < FEWEST_SORTED or bool((steps < 0).any()) or low == high or bool((steps == 1).all()):
        return None
    return ObservedOrder(Distribution.SORTED, min(low, 0), high + 1, _reach(high + 1, rows.shape[1]))


def _different(
    rows: torch.Tensor, low: int, high: int, extents: Collection[int], *, are_places: bool
) -> ObservedOrder | None:
    """Recognise permutations, and other integers that would hardly differ by chance.

    The largest of some slots is a little below their number, which is then the size of another argument.
    """
    count, among = rows.shape[1], high + 1
    ordered = rows.sort(dim=1).values
    if low < 0 or count < 2 or bool((ordered.diff(dim=1) == 0).any()):
        return None
    if bool((rows == ordered).all()) and not are_places:
        return None
    is_permutation = low == 0 and among == count
    pairs = len(rows) * count * (count - 1) / 2
    by_chance = float(torch.exp(torch.tensor(-pairs / max(1, among - low))))
    if not is_permutation and not are_places and by_chance >= CHANCE:
        return None
    near = [size for size in extents if among <= size <= _reach(among, count)]
    return ObservedOrder(Distribution.UNIQUE, 0, among if is_permutation and not near else min(near, default=among))


def _reach(end: int, count: int) -> int:
    """Return the largest end of random indices, of which some lie below an end."""
    return int(end * (1 + NEAR / count))
