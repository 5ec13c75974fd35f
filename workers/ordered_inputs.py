"""Values of ordered inputs: sorted integers, segments and different indices.

The draws differ in the faults that they find. Segments are of any length, mostly empty, one alone, or empty in turn.
Different indices are in any order, nearly in order, in reverse, or in order. So a kernel that believes in equal or
non-empty segments, or in the identity, fails in several. Segments of `normal`, which baselines are timed with, are
spread like those of timed content (`place_integers` in `workers.device_kernels`): up to twice the average, some empty.
"""

from collections.abc import Callable
from math import prod

import torch

from workers.protocol.distribution import PARTITIONS, Distribution, segments_in

CUTS = 2
"""Number of places where `heavy` cuts: up to three segments are not empty."""


def draw_ordered(
    distribution: Distribution, size: tuple[int, ...], low: int, high: int, name: str, generator: torch.Generator
) -> torch.Tensor:
    """Draw an ordered input.

    Args:
        distribution: One of `ORDERED`.
        size: Shape without zeros; the last axis is ordered.
        low: Smallest value.
        high: End of the values, exclusive; number of elements in all segments for partitions.
        name: Name of the draw.
        generator: Random generator.

    Returns:
        Values, int64.
    """
    rows, columns = prod(size[:-1]), size[-1]
    if distribution in PARTITIONS:
        values = _partition(distribution, rows, columns, high, name, generator)
    elif distribution is Distribution.SORTED:
        values = low + _boundaries(rows, columns, high - low - 1, name, generator)
    else:
        values = low + _different(rows, columns, high - low, name, generator)
    return values.reshape(size)


def _partition(
    distribution: Distribution, rows: int, columns: int, total: int, name: str, generator: torch.Generator
) -> torch.Tensor:
    inner = _boundaries(rows, segments_in(distribution, columns) - 1, total, name, generator)
    ends = torch.full((rows, 1), total, device=generator.device)
    offsets = torch.cat([torch.zeros_like(ends), inner, ends], dim=1)
    match distribution:
        case Distribution.ENDS:
            return offsets[:, 1:]
        case Distribution.STARTS:
            return offsets[:, :-1]
        case Distribution.COUNTS:
            return offsets.diff(dim=1)
    return offsets


def _boundaries(rows: int, count: int, total: int, name: str, generator: torch.Generator) -> torch.Tensor:
    """Draw numbers from 0 to `total`, inclusive, that never fall, (rows, count)."""

    def anywhere(columns: int) -> torch.Tensor:
        return torch.randint(0, total + 1, (rows, columns), generator=generator, device=generator.device)

    match name:
        case "heavy":
            places = torch.randint(0, CUTS, (rows, count), generator=generator, device=generator.device)
            cuts = anywhere(CUTS).gather(1, places)
        case "shifted":  # All elements in one segment, and the others empty before or behind it.
            whole = torch.randint(0, count + 1, (rows, 1), generator=generator, device=generator.device)
            cuts = torch.where(torch.arange(count, device=generator.device) < whole, 0, total)
        case "structured":  # Every other segment is empty, the first and the last among them if their number is odd.
            cuts = anywhere(count).sort(dim=1).values
            cuts[:, 1::2] = cuts[:, 0::2][:, : count // 2]
            if count > 1:
                cuts[:, 0], cuts[:, -1] = 0, total
        case "normal":
            cuts = _spread(rows, count, total + 1, generator)
        case _:
            cuts = anywhere(count)
    return cuts.sort(dim=1).values


def _spread(rows: int, count: int, among: int, generator: torch.Generator) -> torch.Tensor:
    """Draw a number from each of `count` equal parts of the numbers below `among`; half are at an end of their part."""
    first, behind = _parts(count, among, generator.device)
    share = 2 * torch.rand((rows, count), generator=generator, dtype=torch.float64, device=generator.device) - 0.5
    found = first + (share.clamp(0, 1) * (behind - first + 1)).long()
    return torch.minimum(found, behind).clamp(max=among - 1)


def _parts(count: int, among: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first number of each equal part of the numbers below `among`, and the first behind it."""
    edges = among * torch.arange(count + 1, device=device) // max(count, 1)
    return edges[:-1], edges[1:]


def _different(rows: int, columns: int, among: int, name: str, generator: torch.Generator) -> torch.Tensor:
    """Draw different numbers below `among` in each row, (rows, columns)."""
    device = generator.device
    places = _ORDERS.get(name, _any_order)(rows, columns, generator)
    if name == "shifted":  # The upper end, without gaps.
        return among - columns + places
    if name == "structured" and columns <= among:  # The lower end, without gaps.
        return places
    # One number of each of as many equal parts, so that memory need not grow with `among`.
    first, behind = (edges[places] for edges in _parts(columns, among, device))
    share = torch.rand((rows, columns), generator=generator, dtype=torch.float64, device=device)
    return torch.minimum(first + (share * (behind - first)).long(), behind - 1)


def _any_order(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand((rows, columns), generator=generator, dtype=torch.float64, device=generator.device).argsort(dim=1)


def _in_order(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    return torch.arange(columns, device=generator.device).expand(rows, columns)


def _nearly_in_order(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Exchange two numbers of each row."""
    places = _in_order(rows, columns, generator).clone()
    chosen = _any_order(rows, columns, generator)[:, :2]
    return places.scatter(1, chosen, chosen.flip(1)) if columns > 1 else places


def _in_reverse(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    return _in_order(rows, columns, generator).flip(1)


_ORDERS: dict[str, Callable[[int, int, torch.Generator], torch.Tensor]] = {
    "heavy": _nearly_in_order,
    "shifted": _in_reverse,
    "structured": _in_order,
}
# Orders by draw; any order in the others.
