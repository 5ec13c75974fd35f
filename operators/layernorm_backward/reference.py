"""LayerNorm: Ba, Kiros and Hinton, "Layer Normalization" (2016), equation 4, over the last dimension.

The variance is the biased one and epsilon is 1e-5, as `torch.nn.LayerNorm` has them.
"""

import torch


def layernorm(x, weight, bias):
    wide = x.float()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.pow(2).mean(dim=-1, keepdim=True)
    return (centred * torch.rsqrt(variance + 1e-5) * weight.float() + bias.float()).to(x.dtype)
