"""Linear attention without normalisation; a position sees those of its block of 32, and of all blocks before."""

import torch


def linear_attention(q, k, v):
    block = torch.arange(q.shape[2], device=q.device) // 32
    seen = (block[:, None] >= block[None, :]).float()
    scores = (q.float() * 0.125) @ k.float().transpose(-2, -1)
    return ((scores * seen) @ v.float()).to(q.dtype)
