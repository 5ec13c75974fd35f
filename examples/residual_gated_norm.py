"""A residual stream with a gate and a norm, as one of our layers has them."""

from typing import Annotated

import torch
from torch import Tensor


def residual_gated_norm(
    x: Annotated[Tensor, "bf16[M=4096, N=1024]"],
    residual: Annotated[Tensor, "bf16[M=4096, N=1024]"],
    gate: Annotated[Tensor, "bf16[N=1024]"],
) -> tuple[Tensor, Tensor]:
    """Residual, sigmoid gate, norm."""
    h = x.float() + residual.float()
    h = h * torch.sigmoid(gate.float())
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype), h.to(x.dtype)
