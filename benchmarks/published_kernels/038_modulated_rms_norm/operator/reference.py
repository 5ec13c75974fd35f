"""RMSNorm with an epsilon of 1e-6, then scaled by `1 + scale` and shifted, each token by its own.

The normed values are rounded to their dtype, as in the repository's own test; `llama` is what the kernel calls this.
"""

import torch


def modulated_rms_norm(x, weight, scale, shift):
    wide = x.float()
    normal = (wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)
    return normal * weight * (1 + scale) + shift
