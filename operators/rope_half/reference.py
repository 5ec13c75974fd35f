"""Rotary position embedding: Su et al., "RoFormer" (2021), equation 34, with the two halves of the head paired.

Element `i` turns with element `i + R` by one angle, which `cos` and `sin` hold once.
"""

import torch


def rope_half(q, cos, sin):
    first, second = q.float().chunk(2, dim=-1)
    cos, sin = cos.float(), sin.float()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(q.dtype)
