"""Linear resizing, written out as weighted sums of two neighbours along each axis, as torch's kernels for cards do.

On a CPU torch leaves neighbours of weight zero out, so that infinities in them do not make NaN. Torch's own formula
for compilers interpolates by a difference, which makes NaN of one infinite neighbour.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Resized = Callable[..., torch.Tensor]


def _resized(x: torch.Tensor, size: Sequence[int], align_corners: bool, *scales: float | None) -> torch.Tensor:
    """Resize the last axes of a tensor, the last one first."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    factors = [*scales, *[None] * (len(size) - len(scales))]
    for axis, (target, factor) in reversed([*enumerate(zip(size, factors, strict=True), start=x.dim() - len(size))]):
        wide = _along(wide, axis, target, align_corners, factor)
    return wide.to(x.dtype)


def _along(x: torch.Tensor, axis: int, target: int, align_corners: bool, factor: float | None) -> torch.Tensor:
    source = x.shape[axis]
    places = torch.arange(target, dtype=x.dtype, device=x.device)
    if align_corners:
        places = places * ((source - 1) / (target - 1) if target > 1 else 0.0)
    else:
        step = 1 / factor if factor else source / target
        places = ((places + 0.5) * step - 0.5).clamp(min=0)
    first = places.to(torch.int64).clamp(max=source - 1)
    share = (places - first).clamp(0, 1).reshape([-1, *[1] * (x.dim() - 1 - axis)])
    near, far = (x.index_select(axis, each) for each in (first, (first + 1).clamp(max=source - 1)))
    return near * (1 - share) + far * share


_aten: Any = torch.ops.aten
RESIZING: dict[Any, Resized] = dict.fromkeys(
    (_aten.upsample_linear1d.default, _aten.upsample_bilinear2d.default, _aten.upsample_trilinear3d.default), _resized
)
"""Formulas by operation."""
