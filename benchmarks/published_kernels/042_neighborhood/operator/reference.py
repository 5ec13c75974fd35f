"""Attention of each position to the seven nearest ones, three on either side."""

import torch


def neighborhood(q, k, v):
    at = torch.arange(q.shape[2], device=q.device)
    scores = q.float() @ k.float().transpose(-1, -2) * q.shape[3] ** -0.5
    scores = scores.masked_fill((at[:, None] - at[None, :]).abs() > 3, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
