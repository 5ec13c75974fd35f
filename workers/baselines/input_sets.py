"""Rotating sets of inputs: the same content at distinct addresses for all contenders, larger than a cache.

A set is a slot of the pacer's plan in an arena; the other contenders read the inputs of the same slots.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from random import SystemRandom

import torch

from workers.commands import RunSlot
from workers.inputs import draw
from workers.memory_layout import SMALL_ZONE_BYTES, place, slot_bytes
from workers.protocol import Bundle, Operator, Plan, View

CACHES = 5
"""Size of all sets together, in units of the L2 cache (evaluation protocol 3.3, step 1)."""
SETS_BYTES = 2**30
"""Minimum bytes of inputs of all sets: as much as memory delivers in a sample, so that no set is used twice in one."""
FEWEST, MOST = 8, 64
"""Minimum and maximum number of sets; a sample has at most as many calls (evaluation protocol 3.3, step 1)."""
MEMORY_SHARE = 4
"""Divisor of the card's free memory that bounds all sets: contenders need memory for outputs and intermediate values
too."""
SEED_BYTES = 16

Look = Callable[[View, int], torch.Tensor]
"""Returns the tensor of a view, given the place of its buffer in the arena."""


@dataclass(frozen=True)
class InputSet:
    """One set of inputs.

    Attributes:
        slot: The slot with the buffers of one run of the pacer.
        inputs: The inputs there, in the operator's order.
    """

    slot: RunSlot
    inputs: tuple[torch.Tensor, ...]


def count_sets(operator: Operator, bundle: Bundle, plan: Plan, l2_bytes: int, free_bytes: int) -> int:
    """Return the number of sets for a shape; zero if not even one fits.

    Args:
        operator: The contract.
        bundle: The pacer, which holds `plan`.
        plan: Its plan of the shape.
        l2_bytes: Size of the card's L2 cache.
        free_bytes: Free bytes of the card's memory.
    """
    input_bytes = operator.input_bytes(plan.shape.dims)
    return sets_of(input_bytes, slot_bytes(bundle, plan, SMALL_ZONE_BYTES), l2_bytes, free_bytes)


def sets_of(input_bytes: int, set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """Return the number of sets of a size with a part that is read; zero if not even one fits."""
    wanted = ceil(max(CACHES * l2_bytes, SETS_BYTES) / max(1, input_bytes))
    return min(max(FEWEST, min(MOST, wanted)), free_bytes // MEMORY_SHARE // set_bytes)


def lay_out(operator: Operator, bundle: Bundle, plan: Plan, count: int, look: Look) -> list[InputSet]:
    """Place sets in an arena, from its start, and draw their inputs.

    Args:
        operator: The contract.
        bundle: The pacer, which holds `plan`.
        plan: Its plan of the shape.
        count: Number of sets; the arena holds `slot_bytes` for each.
        look: Returns tensors in the arena.
    """
    limit = count * slot_bytes(bundle, plan, SMALL_ZONE_BYTES)
    slots = place(bundle, plan, count, SystemRandom(), start=0, limit=limit, zone_bytes=SMALL_ZONE_BYTES)
    sets = [InputSet(slot, _inputs(operator, plan, slot, look)) for slot in slots]
    for each in sets:
        drawn = draw(operator, plan.shape, "normal", secrets.token_bytes(SEED_BYTES), device=each.inputs[0].device)
        for target, values in zip(each.inputs, drawn, strict=True):
            target.copy_(values)
    return sets


def _inputs(operator: Operator, plan: Plan, slot: RunSlot, look: Look) -> tuple[torch.Tensor, ...]:
    tensors = []
    for index, item in enumerate(operator.given):
        size = operator.input_shape(item, plan.shape.dims)
        view = View(buffer=index, shape=size, strides=_contiguous(size), dtype=item.dtype)
        tensors.append(look(view, slot.buffers[index]))
    return tuple(tensors)


def _contiguous(size: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(size[axis + 1 :]) for axis in range(len(size)))
