"""Attention of one new token to everything before it, heads of queries in groups: Ainslie et al., "GQA" (2023).

Vaswani et al., "Attention Is All You Need" (2017), equation 1, for every head of queries; those of a group share keys
and values. Nothing is masked, as all keys are earlier ones.
"""

import torch


def decode_attention(q, k, v):
    scores = (q.float() @ k.float().transpose(-2, -1)) * q.shape[-1] ** -0.5
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
