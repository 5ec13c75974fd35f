"""Layer normalisation of each row, with a weight and a bias."""

import torch


def layernorm(x, weight, bias):
    wide = x.float()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
