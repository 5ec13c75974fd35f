"""Rows of x in eight bits, cut off towards zero, times weights of eight bits; both scales are float16."""

import torch


def linear_int8(x, weight, scale):
    wide = x.float()
    step = wide.abs().amax(dim=-1, keepdim=True) / 127.0
    numbers = torch.where(step > 0, wide / step, 0.0).trunc()
    return ((numbers @ weight.float()) * step.to(x.dtype).float() * scale.float()).to(x.dtype)
