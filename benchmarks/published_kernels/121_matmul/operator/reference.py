"""Product of two matrices."""

import torch


def product(a, b):
    return torch.matmul(a.float(), b.float()).to(a.dtype)
