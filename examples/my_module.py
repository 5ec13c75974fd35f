"""An nn.Module with example inputs, as KernelBench writes them: `reef search --kernelbench examples/my_module.py`."""

import torch
from torch import nn


class Model(nn.Module):
    """A tanh with one learned scale per feature. The importer looks for the name `Model`."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.scale


def get_inputs() -> list[torch.Tensor]:
    """Arguments of `forward`: their shapes, dtypes and bounds become the operator's."""
    return [torch.randn(4096, 2048)]


def get_init_inputs() -> list[int]:
    """Arguments of `Model`."""
    return [2048]
