"""Places of inputs and results as the judge draws them, for `benchmarks.independent_harness`.

It needs torch, and nothing of Kernelreef. Torch begins large tensors at multiples of 2 MiB. The judge places inputs and
results of all calls of a round one after the other in one block of memory, at random distances.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

ALIGNMENT, GAP_BYTES, STEPS, START_STEPS = 256, 4096, 64, 4096
"""Alignment of every tensor, least bytes between two, and most steps of the alignment by which a tensor, and the first
one of all, are moved on at random: as the judge has them."""
ALLOCATING = (torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty)
"""Functions by which kernels allocate results."""
Piece = tuple[int, int]
"""Offset and bytes of a tensor."""
Copies = Sequence[Sequence[Any]]
"""Arguments by call."""


@dataclass(frozen=True)
class PlacedCall:
    """A call, and its arguments where they lie."""

    call: Callable[[], Any]
    arguments: Sequence[Any]


class TorchMemory:
    """Inputs and results lie where torch puts them.

    Attributes:
        graphs: Number of graphs of samples by side.
    """

    graphs = 2

    def lay_out(self, sides: Sequence[tuple[Callable[..., Any], Copies]]) -> list[list[PlacedCall]]:
        """Return the calls of each side, a function and its arguments by call."""
        return [[PlacedCall(partial(function, *copy), copy) for copy in copies] for function, copies in sides]


def places(sizes: Sequence[int], count: int, random: Random, start: int) -> tuple[list[list[int]], int]:
    """Place the tensors of so many calls as the judge does, one after the other, those of a call in random order.

    Args:
        sizes: Bytes of a call's tensors.
        count: Number of calls.
        random: Draws the order and the distances.
        start: First free byte.

    Returns:
        Offsets of each call's tensors, and the end of the last.
    """
    found = []
    for _ in range(count):
        offsets, order = [0] * len(sizes), list(range(len(sizes)))
        random.shuffle(order)
        start = _aligned(start)
        for index in order:
            offsets[index] = start = _aligned(start + GAP_BYTES + random.randrange(STEPS) * ALIGNMENT)
            start += sizes[index]
        start += GAP_BYTES
        found.append(offsets)
    return found, start


def _aligned(offset: int) -> int:
    return math.ceil(offset / ALIGNMENT) * ALIGNMENT


class ResultPlaces(TorchFunctionMode):
    """Has results that a function allocates lie in given memory, one after the other; `sizes` says how large they are.

    Without memory they stay where torch puts them.
    """

    def __init__(self, given: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.sizes, self._given = list[int](), given

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Allocate by torch, and return memory of the same form."""
        made = function(*args, **(kwargs or {}))
        if function not in ALLOCATING:
            return made
        self.sizes.append(made.untyped_storage().nbytes())
        return made if self._given is None else _like(made, self._given[len(self.sizes) - 1])

    def run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Run a function once more, from the first result on."""
        self.sizes.clear()
        with self:
            return function(*arguments)


def _like(item: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Return bytes as a tensor of another one's form."""
    return memory.view(item.dtype).as_strided(item.shape, item.stride())


class ShiftedMemory:
    """One block of memory in which the inputs and results of all calls of a round lie, at random distances.

    Attributes:
        graphs: Number of graphs of samples by side: the pairs of the judge's round, which have places of their own.

    Args:
        device: Name of a device for torch.
        seed: Seed of the places.
    """

    graphs = 12

    def __init__(self, device: str, seed: int) -> None:
        self._random, self._memory = Random(seed), torch.empty(0, dtype=torch.uint8, device=device)

    def lay_out(self, sides: Sequence[tuple[Callable[..., Any], Copies]]) -> list[list[PlacedCall]]:
        """Place the calls of each side, a function and its arguments by call. Earlier ones may not be called any more.

        Calls are in random order, and the sides too, as in a round of the judge.
        """
        laid, end = dict[int, list[list[Piece]]](), self._random.randrange(START_STEPS) * ALIGNMENT
        for number in self._random.sample(range(len(sides)), len(sides)):
            function, copies = sides[number]
            (probe := ResultPlaces()).run(function, copies[0])
            sizes = [*(item.untyped_storage().nbytes() for item in _tensors(copies[0])), *probe.sizes]
            offsets, end = places(sizes, len(copies), self._random, end)
            self._random.shuffle(offsets)
            laid[number] = [list(zip(each, sizes, strict=True)) for each in offsets]
        if end > len(self._memory):
            self._memory = self._memory[:0].clone()  # The old block is free before the new one is allocated.
            self._memory = torch.empty(end, dtype=torch.uint8, device=self._memory.device)
        return [
            [self._placed(function, copy, pieces) for copy, pieces in zip(copies, laid[number], strict=True)]
            for number, (function, copies) in enumerate(sides)
        ]

    def _placed(self, function: Callable[..., Any], copy: Sequence[Any], pieces: Sequence[Piece]) -> PlacedCall:
        memory = [self._memory[offset : offset + size] for offset, size in pieces]
        given = iter(memory)
        moved = [_like(item, next(given)).copy_(item) if isinstance(item, torch.Tensor) else item for item in copy]
        return PlacedCall(partial(ResultPlaces(list(given)).run, function, moved), moved)


def _tensors(items: Sequence[Any]) -> list[torch.Tensor]:
    return [item for item in items if isinstance(item, torch.Tensor)]
