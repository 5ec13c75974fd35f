"""Causal attention within a window: a position attends to itself and to the `window - 1` positions before it.

Beltagy et al., "Longformer" (2020), section 3.1, with all of the window on the left, as Mistral 7B, Gemma and gpt-oss
have it; the papers were not at hand, and the definition is their published code's. Sinks are left out.
"""

import torch


def sliding_window_attention(q, k, v, window):
    scores = (q.float() @ k.float().transpose(-2, -1)) * q.shape[-1] ** -0.5
    seen = torch.ones_like(scores[0, 0], dtype=torch.bool).tril().triu(1 - window)
    scores = scores.masked_fill(~seen, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
