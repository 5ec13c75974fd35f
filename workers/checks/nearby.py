"""Losses of a reference that rounds on the way, at inputs a roundoff away.

Where one score of a row outweighs all others, one rounding of it to float16 is nearly all that the row loses. By luck
that is little, and would be a bad measure of a kernel that rounds queries instead. Attention of a published kernel was
refused on an H200, though it errs less than its reference.
"""

from collections.abc import Iterator, Sequence

import torch

from workers.checks.expectation import Expectation
from workers.commands import TIMED
from workers.float8 import readable
from workers.protocol import Graph
from workers.reference import evaluate, origin

NUDGES = 8
"""Number of independent nudges. In 200 draws of timed content a right attention reached at most 0.58 of the bounds
that these losses make; with queries in bfloat16 in one row of 64 it was at least 1.07, in six draws."""


def losses_nearby(reference: Expectation, number: int) -> Iterator[torch.Tensor]:
    """Yield how far a float result in the operator's own dtypes is from the expected one, at nudged inputs, float64.

    On timed content alone: outliers make a few rows in which one value outweighs all others. Elsewhere nothing, nor
    where the reference rounds results alone.
    """
    if reference.draw != TIMED or not rounds_on_the_way(reference.graph, reference.inputs):
        return
    for seed in range(NUDGES):
        moved = a_unit_away(reference.inputs, seed)
        native = evaluate(reference.graph, moved, double=False)[number]
        yield readable(native).double().sub_(reference.expected[number])


def own_losses(reference: Expectation, number: int) -> Iterator[torch.Tensor]:
    """Yield what a float result in the operator's own dtypes loses, float64: at the inputs, and at each nudged ones.

    Unlike `losses_nearby`, without what the nudge itself moves. What is NaN or infinite counts as zero.
    """
    for seed in (None, *range(NUDGES)):
        moved = reference.inputs if seed is None else a_unit_away(reference.inputs, seed)
        native = evaluate(reference.graph, moved, double=False)[number]
        exact = evaluate(reference.graph, moved, double=True)[number]
        yield (readable(native).double() - exact).nan_to_num(0.0, 0.0, 0.0)


def rounds_on_the_way(graph: Graph, inputs: Sequence[torch.Tensor]) -> bool:
    """Return True if a reference computes floats narrower than float32 that are no results."""
    ends = {origin(graph, value) for value in graph.outputs}
    found = []

    def note(node: int, values: torch.Tensor) -> torch.Tensor:
        found.append(values.dtype.itemsize < 4 and node not in ends)
        return values

    evaluate(graph, inputs, double=False, rounding=note)
    return any(found)


def a_unit_away(inputs: Sequence[torch.Tensor], seed: int, least: float = 0.0) -> tuple[torch.Tensor, ...]:
    """Return float inputs in their own dtypes, with each element moved by at most a unit in the last place.

    Args:
        inputs: The inputs; others than floats stay.
        seed: Source of the moves.
        least: Relative step that elements may move by at least, if a unit is less.
    """
    generator, found = torch.Generator(inputs[0].device).manual_seed(seed), []
    for tensor in inputs:
        if tensor.is_floating_point():
            moves = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device)
            factors = moves.mul_(2).sub_(1).mul_(max(least, torch.finfo(tensor.dtype).eps)).add_(1)
            tensor = factors.mul_(readable(tensor)).to(tensor.dtype)
        found.append(tensor)
    return tuple(found)
