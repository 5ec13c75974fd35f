"""Rotary position embedding: Su et al., "RoFormer" (2021), equation 34, with the two halves of the head paired.

Element `i` turns with element `i + D/2`, as GPT-NeoX and Llama lay it out; `cos` and `sin` hold each angle twice.
"""

import torch


def rope(q, cos, sin):
    wide = q.float()
    first, second = wide.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (wide * cos.float() + turned * sin.float()).to(q.dtype)
