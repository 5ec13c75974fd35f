"""What Qwen3 does to queries and keys between projection and attention: RMSNorm of every head, then rotation.

RMSNorm is Zhang and Sennrich (2019), equation 4, with an epsilon of 1e-6; the rotation is Su et al., "RoFormer" (2021),
equation 34, with the two halves of a head paired. `cos` and `sin` hold each angle twice, a row for every position. The
order of the two is that of Qwen3's published code, from knowledge. All of it is in float32 and rounded once.
"""

import torch


def normed(x, weight):
    wide = x.float()
    return wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight.float()


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos.float().unsqueeze(1) + torch.cat((-second, first), dim=-1) * sin.float().unsqueeze(1)


def qk_norm_rope(q, k, q_weight, k_weight, cos, sin):
    q_turned = turned(normed(q, q_weight), cos, sin)
    k_turned = turned(normed(k, k_weight), cos, sin)
    return q_turned.to(q.dtype), k_turned.to(k.dtype)
