"""Operations of torch that only move contents, as the fills and copies that they consist of."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

Moves = Iterator[tuple[torch.Tensor | float, torch.Tensor]]
"""Pairs of a source and its target, in order: a number fills all of it, and a tensor is copied to all of it."""


def _join(result: torch.Tensor, tensors: Sequence[torch.Tensor], dim: int = 0) -> Moves:
    at = 0
    for tensor in tensors:
        if tensor.dim() == result.dim():  # An empty vector joins tensors of any shape.
            yield tensor, result.narrow(dim, at, tensor.shape[dim])
            at += tensor.shape[dim]


def _stack(result: torch.Tensor, tensors: Sequence[torch.Tensor], dim: int = 0) -> Moves:
    for index, tensor in enumerate(tensors):
        yield tensor, result.select(dim, index)


def _pad(result: torch.Tensor, source: torch.Tensor, pads: Sequence[int], value: float = 0) -> Moves:
    target = result
    for number in range(len(pads) // 2):
        dim, (before, after) = source.dim() - 1 - number, pads[2 * number : 2 * number + 2]
        source = source.narrow(dim, max(0, -before), source.shape[dim] + min(0, before) + min(0, after))
        target = target.narrow(dim, max(0, before), source.shape[dim])
    if any(pad > 0 for pad in pads):
        yield value, result
    yield source, target


def _repeat(result: torch.Tensor, source: torch.Tensor, counts: Sequence[int]) -> Moves:
    source = source.expand(*[1] * (len(counts) - source.dim()), *source.shape)
    once = [part for size in source.shape for part in (1, size)]
    strides = [part for stride in source.stride() for part in (0, stride)]
    tiles = [part for pair in zip(counts, source.shape, strict=True) for part in pair]
    yield source.as_strided(once, strides), result.view(tiles)


MOVEMENTS: Mapping[str, Callable[..., Moves]] = {
    "cat": _join,
    "stack": _stack,
    "constant_pad_nd": _pad,
    "repeat": _repeat,
}
"""Operations by name; each takes its result, without contents, and its own arguments."""
