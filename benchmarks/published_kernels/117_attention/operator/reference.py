"""Causal attention of prompts that lie one behind the other; a head has 64 elements, so scores are scaled by 1/8."""

import torch


def varlen_attention(q, k, v, offsets):
    rows = torch.arange(q.shape[0], device=q.device)
    prompt = torch.searchsorted(offsets, rows, right=True)
    allowed = (prompt[:, None] == prompt[None, :]) & (rows[:, None] >= rows[None, :])
    scores = torch.einsum("qhd,khd->hqk", q.float(), k.float()) * 0.125
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, v.float()).to(q.dtype)
