"""Operations of references that are written out in others, in graphs and in TorchInductor's seeds alike.

As PyTorch has them they raise, or decide sizes, by values: mutants with other values could not be evaluated.
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


WRITTEN_OUT: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.repeat_interleave.Tensor: _repeated}
"""Replacements by overload; one returns NotImplemented where the size of the result would depend on values."""
