"""Python files of users, with functions and modules."""

FUNCTION = """
import torch

def _gate(x):
    return torch.sigmoid(x) * x

def gated(x, eps, weight, bias=None):
    rows, columns = x.shape
    y = _gate(x) * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return (y * weight).to(x.dtype), None

def example_inputs():
    return [torch.randn(64, 128), 1e-5, torch.randn(128), None]
"""
HINTED = """
from typing import Annotated
import torch

WIDTH = 96

def scaled(x: "bf16[rows, WIDTH]", weight: Annotated[torch.Tensor, "float32[WIDTH]"], factor: float = 2.0):
    return x.float() * weight * factor
"""
