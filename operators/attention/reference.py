"""Scaled dot-product attention: Vaswani et al., "Attention Is All You Need" (2017), equation 1, head by head.

With `causal`, a position attends to itself and to those before it.
"""

import torch


def attention(q, k, v, causal):
    scores = (q.float() @ k.float().transpose(-2, -1)) * q.shape[-1] ** -0.5
    if causal:
        allowed = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
