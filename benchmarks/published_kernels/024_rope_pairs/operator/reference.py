"""Rotary position embedding in place, of neighbouring elements."""

import torch


def turned(x, cos, sin):
    first, second = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).reshape(x.shape)


def rope_pairs(q, k, cos, sin):
    q.copy_(turned(q, cos, sin))
    k.copy_(turned(k, cos, sin))
    return q, k
