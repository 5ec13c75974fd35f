"""A PyTorch function with example inputs: `reef search examples/gated_norm.py:gated_norm`."""

import torch


def gated_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale gated rows to a root mean square of one."""
    y = x.float() * torch.sigmoid(gate.float())
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def example_inputs() -> list[torch.Tensor | float]:
    """Return arguments of the function: shapes and dtypes are those of the operator."""
    x = torch.randn(4096, 2048, dtype=torch.bfloat16)
    return [x, x.clone(), torch.randn(2048, dtype=torch.bfloat16), 1e-6]
