"""Layer normalisation of each row, with a weight."""

import torch


def layernorm_rows(x, weight):
    wide = x.float()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)
    return (centred * scale * weight.float()).to(x.dtype)
