"""Sigmoid attention: Ramapuram et al., "Theory, Analysis, and Best Practices for Sigmoid Self-Attention" (2024).

`sigmoid(q k^T / sqrt(D) + b) v` with a bias of `-log(n)` for n positions, which the paper's abstract and summaries
name and the paper itself, not read in full, derives. With `causal`, a position attends to itself and to those before
it; the bias stays that of all positions.
"""

import math

import torch


def sigmoid_attention(q, k, v, causal):
    scores = (q.float() @ k.float().transpose(-2, -1)) * q.shape[-1] ** -0.5
    weights = torch.sigmoid(scores - math.log(q.shape[-2]))
    if causal:
        allowed = torch.ones_like(weights[0, 0], dtype=torch.bool).tril()
        weights = weights.masked_fill(~allowed, 0.0)
    return (weights @ v.float()).to(q.dtype)
