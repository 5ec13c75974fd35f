"""Rotary embedding in halves: element d and d + 32 of a head turn by one angle per position."""

import torch


def rope(x, freqs):
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = freqs.cos(), freqs.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
