"""RMSNorm without a weight, with an epsilon of 1e-6."""

import torch


def srmsnorm(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)
