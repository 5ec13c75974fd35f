"""Convolutions of a reference in float64, as matrix products.

On a card libraries have matrix units for products in float64, but none for convolutions: a measurement with a
transposed one of 154 GFLOP had 43 s of a card and no verdict (level2/2 of KernelBench, H200, 2026-12-01).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import torch
from torch.nn.functional import pad

from workers.products import PART_ELEMENTS, is_finite


def convolved(args: Sequence[Any]) -> torch.Tensor | None:
    """Return a convolution with the arguments of `aten.convolution`; None if the library's own is no slower."""
    x, weight, bias, *how = args
    convolution = DoubleConvolution(*how)
    return convolution.of(x, weight, bias) if convolution.is_made_of_products(x, weight) else None


@dataclass(frozen=True)
class DoubleConvolution:
    """A convolution, by the arguments of `aten.convolution` after its tensors.

    Attributes:
        stride: Along each axis, as the next three.
        padding: Places around an image.
        dilation: Distance of taps.
        transposed: True if inputs are spread over places.
        extra: Places behind the result of a transposed one.
        groups: Number of independent parts.
    """

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    extra: Sequence[int]
    groups: int

    def is_made_of_products(self, x: torch.Tensor, weight: torch.Tensor) -> bool:
        """Return True on a card, for float64 that is finite, if each group has several channels.

        Where weights are infinite it matters whether zeros around an image are multiplied, and libraries differ.
        """
        is_double = x.dtype == weight.dtype == torch.float64 and x.dim() == weight.dim() > 2
        return x.is_cuda and is_double and x.shape[1] > self.groups and is_finite(x, weight)

    def of(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, part: int = PART_ELEMENTS
    ) -> torch.Tensor:
        """Compute it.

        Args:
            x: Images, [images, channels, *extents].
            weight: Filters, [filters, channels of a group, *taps]; [channels, filters of a group, *taps] if transposed.
            bias: A number per filter.
            part: Elements of factors that are gathered at once, about.
        """
        filters = weight.shape[1] * self.groups if self.transposed else weight.shape[0]
        found = x.new_empty((x.shape[0], filters, *self._extents(x, weight)))
        places = x if self.transposed else found
        per_row = self.groups * weight[0].numel() * prod(places.shape[3:])
        for images in _ranges(x.shape[0], per_row * places.shape[2], part):
            rows = _ranges(places.shape[2], per_row * (images.stop - images.start), part)
            if self.transposed:
                self._spread(found[images], x[images], weight, rows)
            else:
                self._gather(found[images], x[images], weight, rows)
        return found if bias is None else found.add_(bias.reshape(-1, *(1 for _ in self.stride)))

    def _extents(self, x: torch.Tensor, weight: torch.Tensor) -> list[int]:
        axes = zip(x.shape[2:], weight.shape[2:], self.stride, self.padding, self.dilation, self.extra, strict=True)
        if self.transposed:
            return [
                (extent - 1) * step - 2 * around + (taps - 1) * apart + 1 + extra
                for extent, taps, step, around, apart, extra in axes
            ]
        return [
            (extent + 2 * around - (taps - 1) * apart - 1) // step + 1 for extent, taps, step, around, apart, _ in axes
        ]

    def _gather(self, found: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rows: Iterator[slice]) -> None:
        """Multiply all inputs of a place by all filters."""
        axes = len(self.stride)
        windows = pad(x, [around for each in reversed(self.padding) for around in (each, each)])
        for axis, (step, apart) in enumerate(zip(self.stride, self.dilation, strict=True), 2):
            windows = windows.unfold(axis, (weight.shape[axis] - 1) * apart + 1, step)[..., ::apart]
        windows = windows.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
        left = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        for some in rows:
            target = found[:, :, some]
            right = windows.narrow(2 + axes, some.start, some.stop - some.start)
            target.copy_((left @ right.reshape(len(x), self.groups, left.shape[2], -1)).reshape(target.shape))

    def _spread(self, found: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rows: Iterator[slice]) -> None:
        """Multiply every input by all filters, and add to the places that each tap says."""
        whole = [extent + 2 * around for extent, around in zip(found.shape[2:], self.padding, strict=True)]
        total = x.new_zeros((*found.shape[:2], *whole))
        left = weight.reshape(self.groups, weight.shape[0] // self.groups, -1).transpose(1, 2)
        for some in rows:
            part = x[:, :, some]
            products = left @ part.reshape(len(x), self.groups, left.shape[2], -1)
            products = products.reshape(*found.shape[:2], -1, *part.shape[2:])
            for number, tap in enumerate(product(*map(range, weight.shape[2:]))):
                starts = [place * apart for place, apart in zip(tap, self.dilation, strict=True)]
                starts[0] += some.start * self.stride[0]
                spots = (
                    slice(start, start + (extent - 1) * step + 1, step)
                    for start, extent, step in zip(starts, part.shape[2:], self.stride, strict=True)
                )
                total[(slice(None), slice(None), *spots)] += products[:, :, number]
        for axis, around in enumerate(self.padding, 2):
            total = total.narrow(axis, around, found.shape[axis])
        found.copy_(total)


def _ranges(count: int, each: int, part: int) -> Iterator[slice]:
    """Yield ranges of so many that all of each have `part` elements at most, but one at least."""
    step = max(1, part // max(1, each))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
