"""Example inputs for files that people run: what to draw, and the text of a function that draws ordered values."""

from collections.abc import Mapping

from workers.protocol import Input, Operator
from workers.protocol.distribution import ORDERED
from workers.protocol.extent import size_of

ExampleInput = tuple[tuple[int, ...], str, float | None, float | None, str | None]
"""Sizes, dtype, bounds of the values, and the order of ordered ones."""

ORDERED_VALUES = '''def ordered(order, sizes, low, high, device, generator=None):
    """Draw integers from low to below high in the order of a spec; segments divide `high` elements."""
    *rows, columns = sizes

    def drawn(end, count):
        return torch.randint(int(low or 0), int(end), (*rows, count), device=device, generator=generator)

    if order == "unique":
        room = torch.rand((*rows, int(high - (low or 0))), device=device, generator=generator)
        return room.argsort(dim=-1)[..., :columns] + int(low or 0)
    if order == "sorted":
        return drawn(high, columns).sort(dim=-1).values
    segments = columns - (order == "offsets")
    ends = torch.full((*rows, 1), int(high), device=device)
    cuts = drawn(high + 1, segments - 1).sort(dim=-1).values
    offsets = torch.cat([torch.zeros_like(ends), cuts, ends], dim=-1)
    parts = {"offsets": offsets, "ends": offsets[..., 1:], "starts": offsets[..., :-1]}
    return {**parts, "counts": offsets.diff(dim=-1)}[order]
'''
"""Text of a function that draws ordered values; it needs torch."""


def example_inputs(operator: Operator, dims: Mapping[str, int]) -> list[ExampleInput | None]:
    """Return what to draw for each tensor that a plan takes, at some sizes; None for an absent input."""
    return [_example(operator, item, dims) if operator.is_present(item, dims) else None for item in operator.given]


def _example(operator: Operator, item: Input, dims: Mapping[str, int]) -> ExampleInput:
    high = size_of(item.high, dims) if isinstance(item.high, str) else item.high
    order = item.distribution.value if item.distribution in ORDERED and item.distribution else None
    return operator.input_shape(item, dims), item.dtype, item.low, high, order
