"""RMSNorm over the last dimension with an epsilon of 1e-6."""

import torch


def rmsnorm(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    return (wide * scale * weight.float()).to(x.dtype)
