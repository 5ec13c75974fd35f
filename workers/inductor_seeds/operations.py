"""Operations that a traced reference is given in place of torch's, so that Inductor leaves them to us.

What torch tells Inductor of a convolution depends on the libraries that this machine would choose for it, and fixes
extents that should stay symbols. This one depends on nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

NAMESPACE = "kernelreef"
CONVOLUTION = f"torch.ops.{NAMESPACE}.convolution.default"
"""How Inductor's host code names it. Its arguments are those of `aten.convolution` without the bias."""
_SCHEMA = (
    "(Tensor x, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed,"
    " SymInt[] output_padding, SymInt groups) -> Tensor"
)

_How = tuple[Sequence[int], Sequence[int], Sequence[int], bool, Sequence[int], int]
"""The schema's arguments after the tensors."""


def _made(x: torch.Tensor, weight: torch.Tensor, *how: *_How) -> torch.Tensor:
    """A tensor of the form that a convolution makes."""
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
    # Packed. Torch's own strides would hold a maximum with 1 for every extent, and every index of a kernel with them.
    return x.new_empty_strided(shape, [prod(shape[axis + 1 :]) for axis in range(len(shape))])


torch.library.define(f"{NAMESPACE}::convolution", _SCHEMA)
torch.library.register_fake(f"{NAMESPACE}::convolution", _made)


def _convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: *_How) -> torch.Tensor:
    made: torch.Tensor = torch.ops.kernelreef.convolution(x.contiguous(), weight.contiguous(), *how)
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in weight.shape[2:]))


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.convolution.default: _convolve}
"""What to trace in place of torch's operations, by their overloads."""
