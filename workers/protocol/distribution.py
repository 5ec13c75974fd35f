"""Distributions of an input's values, and the sizes at which ordered ones exist.

Ordered distributions are contracts: a kernel may rely on the order in all inputs that it is judged or timed with. They
hold along an input's last axis, for each of its rows.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import product

from workers.protocol.extent import names_in, size_of

ORDERED_DTYPES = ("int32", "int64")
"""Dtypes of ordered inputs, as torch's operations take indices."""
MAX_ORDERED = 2**31 - 1
"""Largest number of an ordered input: products of two numbers stay below 2^63 while values are made."""


class Distribution(StrEnum):
    """The distribution of an input's values; `workers.inputs` draws them."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    INTEGER = "integer"
    SORTED = "sorted"
    """Integers from `low` to below `high` that never fall."""
    OFFSETS = "offsets"
    """Boundaries of segments, as `cu_seqlens`: the first is 0, none falls, the last is `high`."""
    ENDS = "ends"
    """Ends of segments: offsets without the first."""
    STARTS = "starts"
    """Beginnings of segments: offsets without the last, as `embedding_bag` takes them by default."""
    COUNTS = "counts"
    """Lengths of segments: they add up to `high`."""
    UNIQUE = "unique"
    """Different integers from `low` to below `high`; a permutation if there are no more of them."""


PARTITIONS = frozenset({Distribution.OFFSETS, Distribution.ENDS, Distribution.STARTS, Distribution.COUNTS})
"""Distributions that divide `high` elements into segments."""
ORDERED = PARTITIONS | {Distribution.SORTED, Distribution.UNIQUE}
"""Distributions that are contracts on the order of values."""

Bounds = Mapping[str, tuple[int, int]]
"""Smallest and largest size of each dimension."""


def segments_in(distribution: Distribution, columns: int) -> int:
    """Return the number of segments that a row of a partition describes."""
    return columns - 1 if distribution is Distribution.OFFSETS else columns


def misfit(
    distribution: Distribution, dtype: str, shape: Sequence[str | int], low: float | None, high: object
) -> str | None:
    """Return the reason why the fields of an ordered input do not go together; None if they do."""
    if dtype not in ORDERED_DTYPES:
        return f"distribution '{distribution}' needs dtype int32 or int64, not {dtype}"
    if not shape:
        return f"distribution '{distribution}' needs an axis; the last one is ordered"
    if not isinstance(high, str | float) or (isinstance(high, float) and (high < 0 or high != int(high))):
        return f"distribution '{distribution}' needs 'high': a whole number or an extent, such as 'N'"
    if low is not None and (distribution in PARTITIONS or low < 0 or low != int(low)):
        return "'low' of segments is 0; leave it out" if distribution in PARTITIONS else "'low' must be a whole number"
    return None


def impossible(distribution: Distribution, columns: str | int, low: int, high: str | int, bounds: Bounds) -> str | None:
    """Return the reason why an ordered input does not exist at some sizes within bounds; None if it always does.

    Extremes lie at the ends of bounds, since differences of extents are linear in each dimension.
    """
    names = list(dict.fromkeys((*names_in(columns), *names_in(high))))
    for point in product(*(dict.fromkeys(bounds[name]) for name in names)):
        dims = dict(zip(names, point, strict=True))
        size, end = size_of(columns, dims), size_of(high, dims)
        where = " at " + ", ".join(f"{name}={value}" for name, value in dims.items()) if dims else ""
        if end > MAX_ORDERED:
            return f"'high' is {end}{where}, more than {MAX_ORDERED}"
        if distribution is Distribution.UNIQUE and size > end - low:
            return f"{size} different indices below {high}{where} do not exist: make the bound at least as large"
        if distribution is Distribution.SORTED and size and end <= low:
            return f"there is no index from {low} to below {high}{where}"
        if distribution in PARTITIONS and segments_in(distribution, size) < 1:
            return f"there is no segment{where}: let the axis of '{distribution}' hold at least one"
    return None
