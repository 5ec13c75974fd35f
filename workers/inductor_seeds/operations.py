"""Operations that replace torch's in a traced reference, so that Inductor leaves them to us.

Torch's information for Inductor about a convolution depends on this machine's libraries, and fixes extents that should
stay symbols. Our operation depends on neither.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

NAMESPACE = "kernelreef"
CONVOLUTION = f"torch.ops.{NAMESPACE}.convolution.default"
"""Name of the operation in Inductor's host code. Its arguments are those of `aten.convolution` without the bias."""
_SCHEMA = (
    "(Tensor x, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed,"
    " SymInt[] output_padding, SymInt groups) -> Tensor"
)

_How = tuple[Sequence[int], Sequence[int], Sequence[int], bool, Sequence[int], int]
"""Types of the schema's arguments after the tensors."""


def _made(x: torch.Tensor, weight: torch.Tensor, *how: *_How) -> torch.Tensor:
    """Return a tensor with the shape of a convolution's result."""
    stride, padding, dilation, transposed, output_padding, groups = how
    axes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    if transposed:
        channels = weight.shape[1] * groups
        extents = [
            (size - 1) * step - 2 * pad + gap * (taps - 1) + more + 1 for size, taps, step, pad, gap, more in axes
        ]
    else:
        channels = weight.shape[0]
        extents = [(size + 2 * pad - gap * (taps - 1) - 1) // step + 1 for size, taps, step, pad, gap, _ in axes]
    shape = (x.shape[0], channels, *extents)
    # Packed, because torch's own strides contain a maximum with 1 for every extent, which enters every index.
    return x.new_empty_strided(shape, [prod(shape[axis + 1 :]) for axis in range(len(shape))])


torch.library.define(f"{NAMESPACE}::convolution", _SCHEMA)
torch.library.register_fake(f"{NAMESPACE}::convolution", _made)


def _convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: *_How) -> torch.Tensor:
    made: torch.Tensor = torch.ops.kernelreef.convolution(x.contiguous(), weight.contiguous(), *how)
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in weight.shape[2:]))


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.convolution.default: _convolve}
"""Replacements of torch's operations in a trace, by their overloads."""
