"""Root mean square normalisation of each row, rounded to the dtype before the weight."""

import torch


def rmsnorm(x, weight):
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
    return normed.to(x.dtype) * weight
