"""Operations of references that are written out in others, in graphs and in TorchInductor's seeds alike.

As PyTorch has them they raise, or decide sizes, by values: mutants with other values could not be evaluated. Or they
leave open what equal values become: PyTorch documents nothing for `topk`, nor for `sort` without `stable=True`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch


def _repeated(repeats: torch.Tensor, *, output_size: int | None = None) -> object:
    """Return each number of a segment as often as it has rows; int32 or int64 of shape `[output_size]`."""
    if output_size is None:
        return NotImplemented
    rows = torch.arange(output_size, device=repeats.device)
    segment = torch.searchsorted(repeats.cumsum(0), rows, right=True)
    return segment.clamp(max=repeats.shape[0] - 1).to(repeats.dtype)


def _first_of_the_sorted(
    values: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k first of a stable sort: of equal values the first ones, in their order."""
    found, places = torch.sort(values, stable=True, dim=dim, descending=largest)
    return found.narrow(dim, 0, k), places.narrow(dim, 0, k)


def _sorted(values: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.sort(values, stable=True, dim=dim, descending=descending)
    return found.values, found.indices


WRITTEN_OUT: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
    torch.ops.aten.topk.default: _first_of_the_sorted,
    torch.ops.aten.sort.default: _sorted,
}
"""Replacements by overload; one returns NotImplemented where the size of the result would depend on values."""
