"""RMSNorm with an epsilon of 1e-6, then scaled by `1 + scale` and shifted, each token by its own."""

import torch


def modulated_rms_norm(x, weight, scale, shift):
    wide = x.float()
    normal = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight.float()
    return (normal * (1 + scale.float()) + shift.float()).to(x.dtype)
