"""Matrix product."""

import torch


def matmul(a, b):
    return torch.matmul(a.float(), b.float()).to(a.dtype)
