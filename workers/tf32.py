"""TF32: factors with 10 bits of a mantissa, and the operations of a reference that may have them."""

from typing import Literal

import torch

from workers.protocol import Node

_LOST = 0x1FFF
"""Bits of a float32 that TF32 lacks."""

_CONVOLVING = {
    "convolution": (0, 2),
    **dict.fromkeys(("convolution_backward", "lstm", "gru", "rnn_tanh", "rnn_relu"), (0, 3)),
}
FACTORS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), (0, 2)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addr"), (1, 3)),
    "_trilinear": (0, 3),
    **_CONVOLVING,
}
"""Arguments of products that are factors: the first, and the last plus one; `_CONVOLVING` are left to cuDNN."""


def takes_tf32(node: Node, allowed: bool | Literal["convolutions"]) -> bool:
    """Return True if the node multiplies float32 factors that may be cut to TF32.

    `convolutions` stands for what PyTorch leaves to cuDNN: convolutions and recurrent layers.
    """
    return bool(allowed) and node.name.removesuffix("_") in (FACTORS if allowed is True else _CONVOLVING)


def cut_to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Cut finite float32 values after the 10 bits of TF32's mantissa, as matrix units read them; others stay.

    So factors are too small, by 4e-4 on average. Rounding them first costs an instruction each, which few kernels pay.
    """
    if values.dtype != torch.float32:
        return values
    cut = (values.contiguous().view(torch.int32) & ~_LOST).view(torch.float32)
    return torch.where(values.isfinite(), cut, values)


def round_to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Round finite float32 values to the 10 bits of TF32's mantissa, to nearest; others stay."""
    if values.dtype != torch.float32:
        return values
    near = ((values.contiguous().view(torch.int32) + (_LOST + 1) // 2) & ~_LOST).view(torch.float32)
    return torch.where(near.isfinite(), near, values)
