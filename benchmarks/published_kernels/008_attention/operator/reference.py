"""Causal scaled dot-product attention, of one sequence in the layout position, head, feature."""

import torch


def attention(q, k, v):
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    scores = (q.float() @ k.float().transpose(-2, -1)) * 0.125
    allowed = torch.ones_like(scores[0], dtype=torch.bool).tril()
    scores = scores.masked_fill(~allowed, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v.float()).transpose(0, 1).to(q.dtype)
