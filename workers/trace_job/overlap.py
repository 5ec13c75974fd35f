"""Overlap of strided views of a buffer, decided from their strides.

Views span gigabytes, so bytes are not enumerated. Two views overlap where `offset + sum(stride * index) + byte` is the
same for both: one equation in bounded integers. It is solved from the largest stride down. The reach of the smaller
strides and their greatest common divisor leave a few indices per axis to try.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import gcd

from workers.protocol import DTYPE_BYTES, View

MOST_TRIED = 2000
"""Maximum number of indices tried, a few milliseconds; usual tensor layouts take under a hundred."""

Term = tuple[int, int]
"""A stride, and the maximum of its index."""


class OverlapUndecided(Exception):
    """The strides are too complex to decide within `MOST_TRIED` tries."""


def share_bytes(one: View, other: View) -> bool:
    """Return True if two views have a byte of one buffer in common.

    Raises:
        OverlapUndecided: If `MOST_TRIED` tries do not suffice.
    """
    if one.buffer != other.buffer or 0 in one.shape or 0 in other.shape:
        return False
    if one.end_bytes <= other.offset_bytes or other.end_bytes <= one.offset_bytes:
        return False
    # Counting the other's bytes from its end makes all strides positive.
    terms = [*_terms(one), *_terms(other)]
    return _Equation(terms).holds(other.end_bytes - 1 - one.offset_bytes)


def shares_with_itself(view: View) -> bool:
    """Return True if two elements of a view have a byte in common.

    Raises:
        OverlapUndecided: If `MOST_TRIED` tries do not suffice.
    """
    if not view.overlaps_itself:
        return False
    axes = [(stride, size - 1) for stride, size in zip(view.strides, view.shape, strict=True) if size > 1]
    if any(stride == 0 for stride, _ in axes):
        return True
    # Two indices that differ along an axis, by at least one, and arbitrarily along the axes after it.
    return any(
        _Equation([(stride, most - 1), *((step, 2 * reach) for step, reach in axes[place + 1 :])]).holds(
            sum(step * reach for step, reach in axes[place + 1 :]) - stride
        )
        for place, (stride, most) in enumerate(axes)
    )


def _terms(view: View) -> Iterator[Term]:
    """Yield a view's axes in bytes, and the bytes of an element as an axis."""
    size_bytes = DTYPE_BYTES[view.dtype]
    yield 1, size_bytes - 1
    for stride, size in zip(view.strides, view.shape, strict=True):
        yield stride * size_bytes, size - 1


class _Equation:
    """Equation of a sum of strides times bounded indices."""

    def __init__(self, terms: Iterable[Term]) -> None:
        most: Counter[int] = Counter()
        for stride, index in terms:
            most[stride] += index
        self._terms = sorted(((stride, index) for stride, index in most.items() if stride and index), reverse=True)
        smaller = self._terms[:0:-1]
        self._reaches = [*accumulate((stride * index for stride, index in smaller), initial=0)][::-1]
        self._divisors = [*accumulate((stride for stride, _ in smaller), gcd, initial=0)][::-1]
        self._failed: set[tuple[int, int]] = set()
        self._tried = 0

    def holds(self, total: int) -> bool:
        """Return True if indices exist whose sum is a number.

        Raises:
            OverlapUndecided: If `MOST_TRIED` tries do not suffice.
        """
        return self._is_reached(0, total)

    def _is_reached(self, place: int, total: int) -> bool:
        if place == len(self._terms):
            return total == 0
        if (place, total) in self._failed:
            return False
        if any(
            self._is_reached(place + 1, total - self._terms[place][0] * index) for index in self._tries(place, total)
        ):
            return True
        self._failed.add((place, total))
        return False

    def _tries(self, place: int, total: int) -> Iterator[int]:
        """Yield the indices of an axis that leave a rest which smaller strides may reach."""
        stride, most = self._terms[place]
        step = self._divisors[place]
        common = gcd(stride, step)
        if total % common:
            return
        period = max(1, step // common)
        least = max(0, -((self._reaches[place] - total) // stride))
        first = total // common * pow(stride // common, -1, period)
        for index in range(least + (first - least) % period, min(most, total // stride) + 1, period):
            self._tried += 1
            if self._tried > MOST_TRIED:
                raise OverlapUndecided
            yield index
