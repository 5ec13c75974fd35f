"""Markers: one integer outside of an input's bounds that some of its elements have, such as -100 of `ignore_index`."""

import torch

SHARE = 0.125
"""Share of marked elements in most draws: enough to show in sums, few enough that the others still matter."""
STRETCHES = "heavy"
"""Draw in which whole stretches are marked, as padding at the end of rows is."""
NONE = "shifted"
"""Draw without marked elements."""


def marked(
    values: torch.Tensor, marker: int, name: str, upper: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor:
    """Return integers of which some are the marker.

    Args:
        values: Integers within the bounds.
        marker: The marker.
        name: Name of the draw.
        upper: Elements of every second stretch, in draws with stretches; otherwise None.
        generator: Random generator.
    """
    if name == NONE:
        return values
    if name == STRETCHES and upper is not None:
        chosen = upper
    else:
        chosen = torch.rand(values.shape, generator=generator, device=values.device) < SHARE
    return torch.where(chosen, marker, values)
